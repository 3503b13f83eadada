"""Style of the plotly figures of a page: colours of the light and dark theme, axes, bars, configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyxsim.errors import InputError
from pyxsim.reports.plots.style import DIMENSION_COLOURS, GREY

# Black is not visible in the dark theme.
COLOURS = (*DIMENSION_COLOURS[:-1], "#999999")
# Magma (van der Walt and Smith), which is perceptually uniform and safe for the colour-blind; it starts near the
# background, so that busy links stand out in both themes.
HEAT = {
    "light": ("#E4E6EA", "#FECA8D", "#FD9668", "#F1605D", "#CD4071", "#9E2F7F", "#721F81", "#440F76", "#180F3D"),
    "dark": ("#333A44", "#5A2A7A", "#9E2F7F", "#CD4071", "#F1605D", "#FD9668", "#FECA8D", "#FCFDBF"),
}
_INK = {"light": ("#1C2430", "#5B6675", "#E3E7EC", "#FFFFFF"), "dark": ("#E8ECF1", "#9AA6B5", "#2C333D", "#1A1F26")}
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
LETTER = 12  # pixels
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "responsive": True,
    "scrollZoom": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "toggleSpikelines"],
}
NAME = 44  # letters of a name beside an axis


def need_plotly() -> None:
    """Raise InputError unless plotly and jinja2 are installed."""
    try:
        import jinja2
        import plotly  # noqa: F401
    except ImportError as error:
        missing = str(error.name or "plotly").partition(".")[0]
        raise InputError(f"reports require {missing}: pip install pyxsim[report]") from error
    del jinja2


def plotly_js() -> str:
    """Return plotly.js, to be embedded in the page."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def templates() -> dict[str, Any]:
    """Return the plotly templates of the light and the dark theme."""
    return {theme: _template(theme) for theme in HEAT}


def _template(theme: str) -> dict[str, Any]:
    ink, quiet, line, card = _INK[theme]
    axis = {
        "gridcolor": line,
        "linecolor": line,
        "zerolinecolor": line,
        "tickcolor": line,
        "tickfont": {"color": quiet},
        "title": {"font": {"color": quiet, "size": LETTER}},
        "automargin": True,
        "ticklabelstandoff": 4,
    }
    steps = [[i / (len(HEAT[theme]) - 1), tint] for i, tint in enumerate(HEAT[theme])]
    button = {"bgcolor": card, "bordercolor": line, "font": {"color": ink}}
    return {
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": LETTER, "color": ink},
            "colorway": list(COLOURS),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": ink}},
            "margin": {"l": 64, "r": 24, "t": 34, "b": 48},
            "hovermode": "closest",
            "hoverlabel": {
                "bgcolor": "#10151C",
                "bordercolor": "#10151C",
                "align": "left",
                "font": {"color": "#F2F5F8", "family": FONT, "size": LETTER},
            },
            "coloraxis": {
                "colorscale": steps,
                "colorbar": {"outlinewidth": 0, "thickness": 12, "tickfont": {"color": quiet}, "tickformat": ".3~p"},
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": quiet, "activecolor": ink},
            "geo": {"bgcolor": "rgba(0,0,0,0)", "visible": False},
            "updatemenudefaults": button,
            "sliderdefaults": {
                "bgcolor": line,
                "bordercolor": line,
                "activebgcolor": quiet,
                "tickcolor": quiet,
                "font": {"color": quiet},
                "currentvalue": {"font": {"color": ink, "size": LETTER + 2}},
            },
            "annotationdefaults": {"font": {"color": quiet}, "arrowcolor": quiet},
            "shapedefaults": {"line": {"color": quiet}},
            "bargap": 0.2,
        },
        "data": {"bar": [{"marker": {"line": {"width": 0}}}]},
    }


def figure(traces: Sequence[Any], layout: dict[str, Any], frames: Sequence[Any] = ()) -> Any:
    """Return a plotly figure; plotly validates it, and the page adds the template."""
    import plotly.graph_objects as go

    return go.Figure(data=list(traces), layout={"template": "none", **layout}, frames=list(frames))


def tint(number: int) -> str:
    """Return the colour of a dimension, file or traffic."""
    return COLOURS[number % len(COLOURS)]


def shades(count: int) -> list[str]:
    """Return `count` colours from dark to light."""
    from plotly.colors import sample_colorscale

    return list(sample_colorscale("Viridis", [0.12 + 0.8 * i / max(1, count - 1) for i in range(count)]))


def faded(colour: str, share: float) -> str:
    """Return a colour #RRGGBB with an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"


def plain(text: object) -> str:
    """Escape a text for plotly, which interprets tags."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(c if c.isprintable() else "\ufffd" for c in escaped)


def share_axis(title: str = "", top: float | None = None) -> dict[str, Any]:
    """Return an axis of shares in percent from 0."""
    span = {} if top is None else {"range": [0, top]}
    return {"title": {"text": title}, "tickformat": ".3~p", "rangemode": "tozero", **span}


def quiet_line() -> dict[str, Any]:
    """Return the style of a thin reference line."""
    return {"color": GREY, "width": 1, "dash": "dot"}


def unlike(names: Sequence[str]) -> list[str]:
    """Make equal names distinct by invisible characters, because plotly merges equal categories."""
    return [name + "\u200b" * names[:i].count(name) for i, name in enumerate(names)]


def buttons(entries: Sequence[tuple[str, list[Any]]]) -> dict[str, Any]:
    """Return a menu at the top right; each entry has a name and the data and layout that it sets."""
    steps = [{"label": plain(name), "method": "update", "args": args} for name, args in entries]
    return {
        "buttons": steps,
        "direction": "down",
        "showactive": True,
        "x": 1,
        "xanchor": "right",
        "y": 1.02,
        "yanchor": "bottom",
        "pad": {"t": 0, "b": 2},
    }
