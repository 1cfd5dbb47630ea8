"""How the program looks, in Textual's CSS."""

from typing import Final

CSS: Final = """
Screen { layout: vertical; }
#top { height: 1; background: $panel; }
#counts { height: auto; padding: 0 0 0 0; }
#tabs { height: 1; background: $surface; }
#away { height: auto; }
Tab { width: auto; height: 1; }
Tab.current { background: $primary; color: $text; text-style: bold; }
.title { height: 1; margin-top: 1; }
#rate-title { height: 1; margin-top: 1; }
#rate { height: 2; margin: 0 1; }
Sparkline > .sparkline--max-color { color: $success; }
Sparkline > .sparkline--min-color { color: $success-darken-2; }
Table { height: 1fr; background: $background; scrollbar-size-horizontal: 0; }
#verdict { height: auto; margin-top: 1; }
.upper { height: auto; max-height: 40%; }
.third { max-height: 25%; }
#status { height: auto; max-height: 3; padding: 0 1; }
#keys { height: 1; background: $panel; }

ModalScreen { align: center middle; background: $background 60%; }
.box { width: 76; max-width: 95%; height: auto; padding: 1 2; border: round $warning; background: $surface; }
.page { width: 96%; height: 94%; padding: 0 1; border: round $primary; background: $surface; }
.page #text { height: 1fr; scrollbar-size-vertical: 1; }
.head { height: auto; margin-bottom: 1; }
.keys { height: 1; margin-top: 1; }
.page .keys { margin-top: 0; }
"""
