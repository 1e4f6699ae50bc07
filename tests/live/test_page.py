"""The page for browsers: it needs no other file, and runs only its own script."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import hwheel.live
from hwheel import ManualTimer
from hwheel.live.http_handler import PAGE
from servers import http_request

VOID = {"meta", "link", "br", "hr", "img", "input"}
LINK_ATTRIBUTES = {"src", "href", "srcset", "action", "data", "poster", "cite", "background", "xlink:href"}


class Reader(HTMLParser):
    """Collects the tags, unclosed tags, links, and event handlers of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.references, self.handlers = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value for name, value in attributes if name in LINK_ATTRIBUTES]
        self.handlers += [name for name, _ in attributes if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def served():
    with hwheel.live.serve(0, ManualTimer()) as server:
        return http_request(server.address, "/")


def test_the_page_is_complete_and_links_to_nothing():
    answer = served()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    text = answer.body.decode()
    assert text == PAGE
    reader = Reader()
    reader.feed(text)
    assert reader.open == [] and reader.tags[0] == "html"
    assert reader.references == ["data:,"]  # an empty icon, so that browsers request none
    assert reader.handlers == []  # the policy would block them
    text = text.replace("http://www.w3.org/2000/svg", "")  # an XML namespace, which browsers do not load
    assert not re.search(r"https?:|@import|url\(|import\(|//\w+\.", text)
    assert re.findall(r"fetch\(\"([^\"]*)\"", text) == ["live.json"]


def test_the_policy_allows_only_the_script_and_style_of_the_page():
    answer = served()
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    for kind in ("script", "style"):
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", answer.body.decode(), re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"


def test_names_of_timers_are_inserted_as_text():
    script = PAGE.partition("<script>")[2]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)


def test_the_page_uses_only_names_of_the_snapshot():
    from hwheel.live.snapshot import Sources, snapshot_of

    timer = ManualTimer()
    snapshot = snapshot_of(Sources([timer]))
    (shown,) = snapshot["timers"]
    script = PAGE.partition("<script>")[2]
    known = {*snapshot, *shown, *shown["lateness"], *shown["levels"][0]}
    for holder in ("snapshot", "timer", "late", "level"):
        used = {*re.findall(rf"\b{holder}\.(\w+)", script)} - {"name", "has", "get", "set", "replaceChildren"}
        assert used <= known, holder
    assert {"pending", "added", "levels", "lateness"} <= {*re.findall(r"\btimer\.(\w+)", script)}
