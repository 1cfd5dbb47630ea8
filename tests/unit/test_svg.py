"""SVG pictures without a library."""

import xml.etree.ElementTree as ET

from kiqbridge.commands.heat_map import PAPER, Canvas

SVG = "{http://www.w3.org/2000/svg}"


def drawn(draw):
    canvas = Canvas(width=200, height=100, title='a "b" & <c>', description="d < e")
    draw(canvas)
    return ET.fromstring(canvas.to_text())


def test_a_picture_has_its_size_its_title_and_a_ground_of_its_own():
    root = drawn(lambda canvas: None)

    assert (root.get("width"), root.get("height")) == ("200", "100")
    assert root.get("viewBox") == "0 0 200 100"
    assert root.get("aria-label") == root.find(f"{SVG}title").text == 'a "b" & <c>'
    assert root.find(f"{SVG}desc").text == "d < e"
    [ground] = root.findall(f"{SVG}rect")
    assert ground.get("fill") == PAPER


def test_text_is_escaped():
    root = drawn(lambda canvas: canvas.text((1, 2.125), "a<b>&c", anchor="end", weight=600))

    [text] = root.findall(f"{SVG}text")
    assert text.text == "a<b>&c"
    assert (text.get("x"), text.get("y")) == ("1", "2.12")
    assert (text.get("text-anchor"), text.get("font-weight")) == ("end", "600")


def test_shapes_with_labels():
    def draw(canvas):
        canvas.box((1, 2), (3, 4), fill="#123456", label="03:00 & more", radius=2)
        canvas.dot((5, 6), 7, fill="#654321", edge="#000000", label="dot")
        canvas.line((0, 0), (9, 9), dashed=True)

    root = drawn(draw)

    box, dot = root.findall(f"{SVG}rect")[1], root.find(f"{SVG}circle")
    assert box.find(f"{SVG}title").text == "03:00 & more"
    assert (box.get("width"), box.get("height"), box.get("rx")) == ("3", "4", "2")
    assert dot.find(f"{SVG}title").text == "dot"
    assert root.find(f"{SVG}line").get("stroke-dasharray")
