// Draws the charts of a report, whose data are in the page.
for (const place of document.querySelectorAll("[data-chart]")) {
  const {title, xLabel, yRange, smoothing, marks, series} = JSON.parse(place.dataset.chart);
  const lines = smoothing === 1 ? series : series.map(one => ({...one, points: smoothed(one.points, smoothing), faint: one.points}));
  new LineChart(place, {label: title, xLabel, yRange}).draw(lines, marks);
}
