"""Numbers → SVG, PDF or PNG: learning curves, attention and token vectors. The one owner of matplotlib.

Knows nothing of models or of how a run is stored.
"""

from transformer_cli.inspection.curves import draw_curves
from transformer_cli.inspection.pictures import draw_attention, draw_inspection, draw_words

__all__ = ["draw_attention", "draw_curves", "draw_inspection", "draw_words"]
