"""Mutants of a statement: what a slip of the pen could have made of it."""

from collections.abc import Iterator

from statements import Statement, Word

# {operator: what it becomes}. A comparison becomes its neighbour, which is off by one, and its opposite.
OTHERS = {
    "<": ["<=", ">="],
    "<=": ["<", ">"],
    ">": [">=", "<="],
    ">=": [">", "<"],
    "==": ["!="],
    "!=": ["=="],
    "+": ["-"],
    "-": ["+"],
    "*": ["//"],
    "//": ["*"],
    "%": ["//"],
    "<<": [">>"],
    ">>": ["<<"],
    "&": ["|"],
    "|": ["&"],
    "+=": ["-=", "="],
    "-=": ["+=", "="],
    "%=": ["//="],
    "and": ["or"],
    "or": ["and"],
}
STATUSES = [["ADD_PENDING", "ADD_DUE", "ADD_NEEDS_LEVEL"], ["STEP_DONE", "STEP_MORE", "STEP_TICK"]]
NAMES = {
    "prev": ["next"],
    "next": ["prev"],
    "True": ["False"],
    "False": ["True"],
    "max": ["min"],
    "UINT64_MAX": ["(UINT64_MAX - 1)"],
    "INT64_MAX": ["(INT64_MAX - 1)"],
    **{name: [other for other in kind if other != name] for kind in STATUSES for name in kind},
    **{name: [f"({name} - 1)", f"({name} + 1)"] for name in ["HINT_DISTANCE", "CACHE_LINE", "BLOCK_HEAD", "SLICE"]},
}
ZEROS = {"0", "False", "NULL", "ADD_PENDING", "STEP_DONE"}  # what a function returns that comes to its end
CONDITIONAL = {"if", "elif", "while"}
# What an operand follows, so that a sign or a cast stands there, and no operator.
BEFORE_OPERAND = {
    *OTHERS,
    "=",
    "//=",
    "(",
    "[",
    ",",
    "~",
    ":",
    "if",
    "elif",
    "while",
    "not",
    "return",
    "in",
    "is",
    "else",
}

Words = list[Word]


def mutants(statement: Statement) -> Iterator[Words]:
    """Each as the words of the statement that stands in its place; none where it is left out."""
    words = [*statement.words]
    begin = words.index("=") + 1 if words[0] == "cdef" else 0
    for at in range(begin, len(words)):
        for other in [] if in_type(words, at) else others(statement, at):
            yield [*words[:at], *other, *words[at + 1 :]]
    if words[0] in CONDITIONAL:
        yield from ([words[0], *condition, words[-1]] for condition in conditions(words[1:-1], words[0]))
    if "if" in words[begin + 1 :]:  # one value or the other
        at = words.index("if", begin + 1)
        otherwise = words.index("else", at)
        yield [*words[: at + 1], Word("not"), *bracketed(words[at + 1 : otherwise]), *words[otherwise:]]
    if words[0] not in {*CONDITIONAL, "cdef", "else", "for"} and not returns_zero_at_the_end(statement):
        yield []


def others(statement: Statement, at: int) -> Iterator[Words]:
    """What may stand in place of one word."""
    words = statement.words
    word = words[at]
    if word.isdigit():
        if word != "0" or owner(statement, at) is None:  # name[0] is how Cython writes C's *name
            yield [Word(str(int(word) + 1), word.gap)]
            if word != "0":
                yield [Word(str(int(word) - 1), word.gap)]
    elif word == "is":
        if words[at + 1] != "not":
            yield [word, Word("not")]
    elif word == "not":
        if words[at - 1] == "is" or words[0] not in CONDITIONAL or "and" in words or "or" in words:
            yield []  # else conditions() does that
    elif word == "~":
        yield []
    elif word in NAMES:
        if words[:2] != ("while", "True") and owner(statement, at) != "Bookmark":  # which has no prev
            yield from ([Word(other, word.gap)] for other in NAMES[word])
    elif word in OTHERS and not stands_before_operand(words, at):
        no_number = at == 1 and words[0] in statement.pointers  # a pointer can be moved, and set to no number
        yield from ([Word(other, word.gap)] for other in OTHERS[word] if other != "=" or not no_number)


def conditions(words: Words, keyword: str) -> Iterator[Words]:
    """Never, always, the other way round, and without a part of it. (`while True` would only hang.)"""
    if words == ["True"]:
        return
    yield [Word("False")]
    if keyword != "while":
        yield [Word("True")]
    parts = split_at_junctions(words)
    if len(parts) > 1:
        yield [Word("not"), *bracketed(words)]
        for number in range(len(parts)):
            rest = [word for part in parts[:number] + parts[number + 1 :] for word in part]
            yield rest if number else rest[1:]
    elif words[0] == "not":
        yield words[1:]
    elif not any(
        word in OTHERS or word == "is" for word in top_level(words)
    ):  # of a comparison, OTHERS has the opposite
        yield [Word("not"), *words]


def bracketed(words: Words) -> Words:
    return [Word("("), Word(words[0], ""), *words[1:], Word(")", "")]


def split_at_junctions(words: Words) -> list[Words]:
    """The parts of a condition, each but the first with its `and` or `or`; brackets are not looked into."""
    parts: list[Words] = [[]]
    depth = 0
    for word in words:
        depth += (word in {"(", "["}) - (word in {")", "]"})
        if depth == 0 and word in {"and", "or"}:
            parts.append([])
        parts[-1].append(word)
    return parts


def top_level(words: Words) -> Iterator[Word]:
    """What stands in no brackets."""
    depth = 0
    for word in words:
        depth += (word in {"(", "["}) - (word in {")", "]"})
        if depth == 0:
            yield word


def returns_zero_at_the_end(statement: Statement) -> bool:
    """Without it the function would return the same."""
    words = statement.words
    return statement.ends_function and words[0] == "return" and len(words) == 2 and words[1] in ZEROS


def stands_before_operand(words: tuple[Word, ...] | Words, at: int) -> bool:
    """A sign, an address, or the beginning of a cast: nothing is before it that it could combine."""
    return at == 0 or words[at - 1] in BEFORE_OPERAND  # a `>` before it is an operator, or ends a cast


def in_type(words: Words, at: int) -> bool:
    """Inside of a cast, with its brackets, or of sizeof()."""
    for begin, word in enumerate(words[: at + 1]):
        if word == "sizeof":
            end = words.index(")", begin)
        elif word == "<" and stands_before_operand(words, begin) and ">" in words[begin:]:
            end = words.index(">", begin)
        else:
            continue
        if begin <= at <= end:
            return True
    return False


def owner(statement: Statement, at: int) -> str | None:
    """Of `name.attribute` and `name[index]` what the name points to, if it is a pointer of the function."""
    words = statement.words
    if at < 2 or words[at - 1] not in {".", "["}:
        return None
    name = at - 2
    if words[name] == "]":
        name -= 3
    is_attribute = name > 0 and words[name - 1] == "."
    return None if is_attribute else statement.pointers.get(words[name])
