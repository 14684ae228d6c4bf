"""What the HTML of a page holds: the number of its elements, and its links by their text."""
import urllib.parse
from html.parser import HTMLParser

from program import Failed


class Outline(HTMLParser):
    """The outline of the page at a path."""

    def __init__(self, path, text):
        super().__init__()
        self.path, self.elements, self.links, self.open = path, 0, {}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements += 1
        if tag == "a":
            self.open = (dict(attributes).get("href", ""), [])

    def handle_data(self, data):
        if self.open:
            self.open[1].append(data)

    def handle_endtag(self, tag):
        if tag == "a" and self.open:
            target, words = self.open
            self.links.setdefault("".join(words).strip(), target)
            self.open = None

    def link(self, text):
        """The path behind the first link with this text, without its fragment."""
        if text not in self.links:
            raise Failed(f"{self.path} has no link {text!r}; measure a program of a later commit")
        return urllib.parse.urldefrag(urllib.parse.urljoin(self.path, self.links[text])).url
