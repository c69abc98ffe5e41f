"""What pages of HTML and their figures must be."""

from html.parser import HTMLParser

from thresher.figures import figure_style, make_figure


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


def texts_of(figure):
    """All letters of a figure: what they say, and their boxes in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    FigureCanvasAgg(figure).draw()
    shown = [one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip()]
    boxes = [(one.get_text(), one.get_window_extent()) for one in shown]
    inside = figure.bbox
    # Ticks beyond the limits of an axis exist but are not drawn.
    axes = figure.axes[0]
    hidden = set()
    for axis, low, high in ((axes.xaxis, *sorted(axes.get_xlim())), (axes.yaxis, *sorted(axes.get_ylim()))):
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                hidden |= {id(tick.label1), id(tick.label2)}
    boxes = [(one.get_text(), box) for one, (_, box) in zip(shown, boxes, strict=True) if id(one) not in hidden]
    return boxes, inside


def check_layout(pictures, subject):
    checked = 0
    for name, picture in pictures.items():
        with figure_style(name):
            made = make_figure(picture, subject)
            if made is None:
                continue
            figure, seen = made
            boxes, inside = texts_of(figure)
        for k, (words, box) in enumerate(boxes):
            assert inside.x0 - 1 <= box.x0 and box.x1 <= inside.x1 + 1, f"{name}: {words!r} is cut off"
            assert inside.y0 - 1 <= box.y0 and box.y1 <= inside.y1 + 1, f"{name}: {words!r} is cut off"
            for other, second in boxes[:k]:
                assert not box.overlaps(second), f"{name}: {words!r} covers {other!r}"
        for legend in figure.legends:
            assert not legend.get_window_extent().overlaps(figure.axes[0].bbox), f"{name}: the legend covers the axes"
        assert figure.axes[0].get_legend() is None
        assert seen
        checked += 1
    return checked
