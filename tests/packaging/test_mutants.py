"""The mutation operators, and the list of explained survivors."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools" / "mutants"))
from explained import explained
from operators import mutants
from reason_lists import reasons_in
from schemata import Site, all_mutants, rewritten, sites
from statements import statements, text_of

ROOT = Path(__file__).parents[2]

FUNCTION = '''\
cdef inline int place_of(Wheel* self, Entry** found_out, int at) noexcept nogil:
    """Is no statement."""
    cdef int count
    cdef int64_t last = self.first[0] + at, other
    {statement}
'''


def others(statement):
    """What becomes of a statement, as texts."""
    _, first, *_ = statements(FUNCTION.format(statement=statement))
    assert text_of(first.words) == statement.partition("\n")[0]
    return [text_of(words) for words in mutants(first)]


@pytest.mark.parametrize(
    ("statement", "become"),
    [
        ("at += 1", ["at -= 1", "at = 1", "at += 2", "at += 0", ""]),
        ("found_out[0] = <Entry*>self.bucket.next", ["found_out[0] = <Entry*>self.bucket.prev", ""]),
        ("self.queue[0] = &self.one", ["self.queue[1] = &self.one", ""]),
        ("at = <int>count - -at", ["at = <int>count + -at", ""]),
        ("if at < count:\n        pass", ["if at <= count:", "if at >= count:", "if False:", "if True:"]),
        ("if not at:\n        pass", ["if False:", "if True:", "if at:"]),
        ("while True:\n        pass", []),
        ("while at is NULL:\n        pass", ["while at is not NULL:", "while False:"]),
        (
            "if at and (self or count):\n        pass",
            [
                "if at or (self or count):",
                "if at and (self and count):",
                "if False:",
                "if True:",
                "if not (at and (self or count)):",
                "if (self or count):",
                "if at:",
            ],
        ),
        ("return ADD_DUE", ["return ADD_PENDING", "return ADD_NEEDS_LEVEL", ""]),
        (
            "return at < count or <int>count < 3",  # the first `<` begins no cast
            [
                "return at <= count or <int>count < 3",
                "return at >= count or <int>count < 3",
                "return at < count and <int>count < 3",
                "return at < count or <int>count <= 3",
                "return at < count or <int>count >= 3",
                "return at < count or <int>count < 4",
                "return at < count or <int>count < 2",
                "",
            ],
        ),
        ("return NULL", []),  # the end of the function returns the same
        (
            "size = sizeof(Entry*) * 2",
            ["size = sizeof(Entry*) // 2", "size = sizeof(Entry*) * 3", "size = sizeof(Entry*) * 1", ""],
        ),
    ],
)
def test_what_a_slip_of_the_pen_makes_of_a_statement(statement, become):
    assert others(statement) == become


def test_one_module_has_a_statement_and_all_that_it_could_be():
    source = FUNCTION.format(statement="at += 1")
    declared, added = statements(source)
    found = [
        Site(statement, [*zip(numbered(first), mutants(statement), strict=False)])
        for statement, first in [(declared, 1), (added, 3)]
    ]
    assert rewritten(source, found).splitlines()[3:] == [
        "    cdef int64_t last = (((self.first[0] + at)) if hw_unchanged(1, 2) else ((self.first[1] + at)) if "
        "hw_mutant == 1 else ((self.first[0] - at))), other",
        "    if hw_unchanged(3, 7):",
        "        at += 1",
        "    elif hw_mutant == 3:",
        "        at -= 1",
        "    elif hw_mutant == 4:",
        "        at = 1",
        "    elif hw_mutant == 5:",
        "        at += 2",
        "    elif hw_mutant == 6:",
        "        at += 0",
        "    elif hw_mutant == 7:",
        "        pass",
    ]


def numbered(first):
    """Mutants that have nothing but a number."""
    return [type("Numbered", (), {"number": number}) for number in range(first, first + 5)]


def test_the_whole_wheel_is_read():
    found = all_mutants()
    assert len({mutant.name for mutant in found}) == len(found) > 700
    assert [mutant.number for mutant in found] == [*range(1, len(found) + 1)]
    assert all(of_file for path, of_file in sites(ROOT))
    room = ROOT / "hwheel_core/wheel"
    assert {mutant.file for mutant in found} == {path.name for path in room.glob("*.pxi")}
    written = "".join(path.read_text(encoding="utf-8") for path in room.glob("*.pxi"))
    assert {mutant.function for mutant in found} >= {
        line.partition("(")[0].split()[-1].lstrip("*")
        for line in written.splitlines()
        if line.startswith("cdef ") and "nogil:" in line and "hint" not in line
    } - {"level_memory_free"}


def test_what_is_explained_is_there():
    reasons = explained()
    assert {*reasons} <= {mutant.name for mutant in all_mutants()}
    assert all(len(reason) > 20 for reason in reasons.values())


def test_a_name_has_one_reason(tmp_path):
    file = tmp_path / "reasons.toml"
    file.write_text('[[group]]\nreason = "a"\nnames = ["1", "2"]\n[[group]]\nreason = "b"\nnames = ["3"]\n')
    assert reasons_in(file, "group", "names") == {"1": "a", "2": "a", "3": "b"}
    assert reasons_in(file, "whole", "names") == {}
    file.write_text(file.read_text().replace("3", "2"))
    with pytest.raises(SystemExit, match=r"reasons\.toml names this twice: 2"):
        reasons_in(file, "group", "names")
