/* Shared by all plots: colours of the page's theme, escaped text, and curves. */
"use strict";
window.gpusched = window.gpusched || {};
(function (gpusched) {
  // Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is too pale for lines on white.
  const LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "black"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const PATTERNS = ["", "/", "x", "."]; // of areas, where there are more of them than colours
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const TICKS = [[1e-3, "1 ms"], [0.01, "10 ms"], [0.1, "0.1 s"], [1, "1 s"], [3, "3 s"], [10, "10 s"], [30, "30 s"], [60, "1 min"],
    [180, "3 min"], [600, "10 min"], [1800, "30 min"], [3600, "1 h"], [10800, "3 h"], [36000, "10 h"], [86400, "1 d"], [259200, "3 d"],
    [864000, "10 d"], [2592000, "30 d"], [8640000, "100 d"], [25920000, "300 d"]];
  const MOST_TICKS = 8;
  const drawn = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  gpusched.css = css;
  /* Plotly interprets some markup in texts, so names are escaped. */
  gpusched.plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  gpusched.brief = (text) => gpusched.plain(text.length > 32 ? `${text.slice(0, 31)}\u2026` : text);
  gpusched.unitFor = (seconds) => UNITS.find((unit) => seconds >= 2 * unit[1]) || UNITS[3];
  gpusched.readable = function (seconds) {
    const unit = gpusched.unitFor(Math.abs(seconds));
    return `${Number((seconds / unit[1]).toPrecision(3))} ${unit[0]}`;
  };
  gpusched.narrow = () => window.innerWidth < 600;
  gpusched.lineStyle = function (number) {
    const colour = LINES[number % LINES.length];
    const dash = DASHES[Math.floor(number / LINES.length) % DASHES.length];
    return { color: colour === "black" ? css("--black") : colour, dash, width: 2 };
  };
  gpusched.axis = function (title, more) {
    const look = { gridcolor: css("--line"), linecolor: css("--line"), zerolinecolor: css("--line"), automargin: true };
    return Object.assign({ title: { text: title, standoff: 8 } }, look, more);
  };
  /* An axis of counts, with ticks at whole numbers: for small counts Plotly would also put ticks at halves. */
  gpusched.counts = function (title, values, more) {
    const most = values.reduce((a, b) => Math.max(a, b), 1);
    const ticks = most < 10 ? { tick0: 0, dtick: Math.ceil(most / 4), range: [0, 1.05 * most] } : { rangemode: "tozero" };
    return gpusched.axis(title, Object.assign(ticks, more));
  };
  gpusched.layout = function (more) {
    const look = {
      paper_bgcolor: css("--ground"), plot_bgcolor: css("--ground"),
      font: { color: css("--text"), size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--text") }, align: "left" },
      margin: { l: 56, r: 12, t: 30, b: 44 },
      dragmode: gpusched.narrow() ? false : "zoom",
    };
    return Object.assign(look, more);
  };
  /* Draw, and redraw when the theme or the width class changes; make() returns {traces, layout}. */
  gpusched.draw = function (element, make) {
    const old = drawn.findIndex((one) => one.element === element);
    if (old >= 0) drawn.splice(old, 1);
    drawn.push({ element, make });
    const figure = make();
    const config = { displaylogo: false, responsive: true, displayModeBar: gpusched.narrow() ? false : "hover" };
    return window.Plotly.react(element, figure.traces, figure.layout, config);
  };
  const again = () => drawn.slice().forEach((one) => gpusched.draw(one.element, one.make));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.matchMedia("(max-width: 599px)").addEventListener("change", again);

  const legend = (lines) => ({ orientation: "h", y: -0.2, x: 0, font: { size: 11 }, itemwidth: 30, visible: lines > 1 });
  const height = (lines) => 340 + 20 * Math.ceil(lines / (gpusched.narrow() ? 2 : 4));

  /* lines: [{label, jct_s, share}] */
  gpusched.distributions = function (element, lines) {
    return gpusched.draw(element, () => {
      const longest = Math.max(...lines.map((line) => line.jct_s[line.jct_s.length - 1] || 0));
      const shortest = Math.min(...lines.map((line) => line.jct_s.find((value) => value > 0) || Infinity));
      const inside = TICKS.filter((tick) => tick[0] >= shortest && tick[0] <= longest);
      const each = Math.ceil(inside.length / (gpusched.narrow() ? MOST_TICKS / 2 : MOST_TICKS));
      const ticks = inside.filter((tick, number) => (inside.length - 1 - number) % each === 0);
      const named = ticks.length > 1 ? { tickvals: ticks.map((t) => t[0]), ticktext: ticks.map((t) => t[1]) } : {};
      const traces = lines.map((line, number) => ({
        type: "scatter", mode: "lines", name: gpusched.brief(line.label), visible: line.hidden ? "legendonly" : true, x: line.jct_s, y: line.share,
        line: Object.assign({ shape: "hv" }, gpusched.lineStyle(number)),
        text: line.jct_s.map(gpusched.readable), hovertemplate: "%{y:.1%} within %{text}",
      }));
      const layout = gpusched.layout({
        height: height(lines.length), showlegend: lines.length > 1, legend: legend(lines.length),
        xaxis: gpusched.axis("job completion time (log scale)", Object.assign({ type: "log" }, named)),
        yaxis: gpusched.axis("share of jobs finished", { range: [0, 1.01], tickformat: ".0%" }),
      });
      return { traces, layout };
    });
  };

  /* lines: [{label, held: {at_s, value}, waiting: {at_s, value}}] */
  gpusched.overTime = function (element, lines) {
    return gpusched.draw(element, () => {
      const end = Math.max(...lines.map((line) => line.held.at_s[line.held.at_s.length - 1] || 0));
      const unit = gpusched.unitFor(end);
      const traces = [];
      lines.forEach((line, number) => [["held", "y"], ["waiting", "y2"]].forEach(([what, axis]) => traces.push({
        type: "scatter", mode: "lines", name: gpusched.brief(line.label), legendgroup: String(number), yaxis: axis,
        visible: line.hidden ? "legendonly" : true,
        showlegend: axis === "y", x: line[what].at_s.map((time) => time / unit[1]), y: line[what].value,
        line: Object.assign({ shape: "hv" }, gpusched.lineStyle(number)),
        hovertemplate: what === "held" ? "%{y:.1f} % held" : "%{y:.1f} waiting",
      })));
      const layout = gpusched.layout({
        height: height(lines.length), showlegend: lines.length > 1, legend: legend(lines.length),
        xaxis: gpusched.axis(`time since the first arrival [${unit[0]}]`, { anchor: "y2" }),
        yaxis: gpusched.axis("GPUs held [%]", { range: [0, Math.max(102, ...lines.flatMap((line) => line.held.value))], domain: [0.54, 1] }),
        yaxis2: gpusched.counts("jobs waiting", lines.flatMap((line) => line.waiting.value), { domain: [0, 0.46] }),
      });
      return { traces, layout };
    });
  };

  /* line: {label, shares: {at_s, tenants: [{label, value}]}} */
  gpusched.tenantShares = function (element, line) {
    return gpusched.draw(element, () => {
      const { at_s, tenants } = line.shares;
      const unit = gpusched.unitFor(at_s[at_s.length - 1] || 0);
      const traces = tenants.map((tenant, number) => ({
        type: "scatter", mode: "lines", stackgroup: "tenants", name: gpusched.brief(tenant.label),
        x: at_s.map((time) => time / unit[1]), y: tenant.value,
        line: { shape: "hv", width: 0.5, color: gpusched.lineStyle(number).color },
        fillpattern: { shape: PATTERNS[Math.floor(number / LINES.length) % PATTERNS.length] },
        hovertemplate: "%{y:.1f} % of the GPUs",
      }));
      const layout = gpusched.layout({
        height: height(tenants.length), showlegend: true, legend: legend(tenants.length + 1),
        title: { text: gpusched.brief(line.label), font: { size: 13 } },
        xaxis: gpusched.axis(`time since the first arrival [${unit[0]}]`, {}),
        yaxis: gpusched.axis("GPUs held [%]", { range: [0, 102] }),
      });
      return { traces, layout };
    });
  };
})(window.gpusched);
