"""What the pictures of the examples share: a figure without a screen, and how a line looks."""


def figure_of(wide, tall):
    """An empty figure, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, tall), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def style(line, *, mark=True):
    """How a line (label, colour, dash, marker) is drawn."""
    label, colour, dash, marker = line
    return {"color": colour, "linestyle": dash, "marker": marker if mark else "", "markersize": 4.5, "label": label}
