"""From a chart's Vega-Lite document to the object that notebooks show. Altair is imported when the first one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmosis.pure.charts import Chart
from osmosis.pure.errors import OsmosisError

if TYPE_CHECKING:
    import altair as alt


def altair_chart(chart: Chart) -> alt.TopLevelMixin:
    """The chart with its title. Raises OsmosisError where Altair is not installed."""
    try:
        import altair as alt  # noqa: PLC0415 - only pictures need it
    except ModuleNotFoundError as error:
        if error.name != "altair":
            raise
        raise OsmosisError("Plots need the package altair.", hint="pip install 'osmosis-ai[notebook]'") from None
    made: alt.TopLevelMixin = alt.Chart.from_json(chart.specification.decode())
    return made.properties(title=alt.TitleParams(chart.title, subtitle=chart.note, anchor="start"))
