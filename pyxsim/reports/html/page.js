// The theme of the pictures follows that of the page, and paper is light. All else is plotly's.
const root = document.documentElement;
const night = matchMedia("(prefers-color-scheme: dark)");
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const themes = read("themes");
const config = read("config");
const areas = [...document.querySelectorAll(".area")];
const theme = () => root.dataset.theme || (night.matches ? "dark" : "light");
const paint = (more) => areas.forEach((area) => Plotly.relayout(area, { template: themes[theme()], ...more }));

for (const area of areas) {
  const figure = read(area.dataset.figure);
  figure.layout.template = themes[theme()];
  Plotly.newPlot(area, { ...figure, config });
}
// An animation that is stopped is a promise that plotly rejects, without a reason.
addEventListener("unhandledrejection", (event) => event.reason === undefined && event.preventDefault());
night.addEventListener("change", () => paint({}));
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = theme() === "dark" ? "light" : "dark";
  paint({});
});
// A picture keeps the size that it has on the screen; a sheet is narrower, and a page has room for two.
const sheet = { width: 640, height: 400 };
let before;
addEventListener("beforeprint", () => {
  before = root.dataset.theme;
  root.dataset.theme = "light";
  for (const area of areas) {
    const height = Math.min(area.clientHeight, sheet.height);
    Plotly.relayout(area, { template: themes.light, width: sheet.width, height });
  }
});
addEventListener("afterprint", () => {
  if (before) root.dataset.theme = before;
  else delete root.dataset.theme;
  paint({ width: null, height: null, autosize: true });
});
