"""What a page of HTML must be."""

from html.parser import HTMLParser


class Whole(HTMLParser):
    """Checks that every tag that is opened is closed, in order."""

    def check(self, text):
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
