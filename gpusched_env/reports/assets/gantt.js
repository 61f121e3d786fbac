/* One run as a figure: jobs on GPUs, GPUs held, jobs waiting and loads of links, over one time axis. */
"use strict";
window.gpusched = window.gpusched || {};
(function (gpusched) {
  const JOBS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"];
  const PATTERNS = ["", "/", "x"];
  const PHASES = ["running", "restoring: holds its GPUs, no progress", "checkpointing: holds its GPUs, no progress"];
  const MOST_LABELS = 250;
  const MOST_NODE_LINES = 64;
  const MOST_NAMES = 16;
  const LINK_HEIGHT = 12; // [px] of a row of the heat map, so that its name can be read

  /* Jobs that arrive one after the other differ in colour; each further pass through the colours is lighter. */
  function colourOf(job) {
    const base = JOBS[job % JOBS.length];
    const lighter = (Math.floor(job / JOBS.length) % 3) * 0.28;
    const part = (at) => Math.round(parseInt(base.slice(at, at + 2), 16) * (1 - lighter) + 255 * lighter);
    return `rgb(${part(1)},${part(3)},${part(5)})`;
  }

  gpusched.jobName = function (run, job) {
    if (!run.jobs) return `job in row ${job}`;
    const profile = run.jobs.profiles[run.jobs.profile[job]];
    return `job ${run.jobs.id[job]} (${run.jobs.gpus[job]} GPU${run.jobs.gpus[job] > 1 ? "s" : ""}, ${profile})`;
  };

  function barTrace(run, scale, chosen) {
    const bars = run.bars;
    const few = bars.job.length <= MOST_LABELS;
    const hover = bars.job.map((job, i) => {
      const last = bars.row[i] + bars.rows[i] - 1;
      const where = bars.rows[i] > 1 ? `GPUs ${bars.row[i]} to ${last}` : `GPU ${last}`;
      const from = gpusched.readable(bars.start[i] * run.tick_s);
      const to = gpusched.readable(bars.end[i] * run.tick_s);
      const shared = bars.lanes[i] > 1 ? `<br>shares the GPU with ${bars.lanes[i] - 1} more` : "";
      return `${gpusched.plain(gpusched.jobName(run, job))}<br>${where}, ${from} to ${to}<br>${PHASES[bars.phase[i]]}${shared}`;
    });
    const faded = chosen === null ? 1 : bars.job.map((job) => (job === chosen ? 1 : 0.18));
    return {
      type: "bar", orientation: "h", name: "jobs", yaxis: "y", showlegend: false,
      base: bars.start.map((tick) => tick * scale), x: bars.end.map((end, i) => (end - bars.start[i]) * scale),
      y: bars.row.map((row, i) => row + (bars.lane[i] + 0.5) * bars.rows[i] / bars.lanes[i]),
      width: bars.rows.map((rows, i) => rows / bars.lanes[i]),
      marker: {
        color: bars.job.map(colourOf), opacity: faded,
        line: { color: gpusched.css("--ground"), width: few ? 0.8 : 0.3 },
        pattern: { shape: bars.phase.map((phase) => PATTERNS[phase]), fillmode: "overlay", fgcolor: "#000", fgopacity: 0.7, size: 5 },
      },
      hovertext: hover, hoverinfo: "text",
      text: few ? bars.job.map((job) => (run.jobs ? String(run.jobs.id[job]) : "")) : undefined,
      textposition: few ? "inside" : "none", insidetextanchor: "middle", textangle: 0, insidetextfont: { color: "#000" },
      constraintext: "inside",
    };
  }

  function crowdTrace(run, scale) {
    const crowds = run.crowds;
    return {
      type: "bar", orientation: "h", name: "short stays", yaxis: "y", showlegend: false,
      base: crowds.start.map((tick) => tick * scale), x: crowds.end.map((end, i) => (end - crowds.start[i]) * scale),
      y: crowds.row.map((row) => row + 0.5), width: 1,
      marker: { color: gpusched.css("--crowd"), line: { width: 0 } },
      hovertemplate: "several short stays, too many to draw one by one<extra></extra>",
    };
  }

  function markTrace(run, scale) {
    return {
      type: "scatter", mode: "markers", name: "preemptions", yaxis: "y", showlegend: false,
      x: run.preempted.at.map((tick) => tick * scale), y: run.preempted.row,
      marker: {
        symbol: "triangle-left", size: run.preempted.at.length > 300 ? 5 : 8, color: gpusched.css("--cursor"),
        line: { color: gpusched.css("--ground"), width: 0.7 },
      },
      hovertemplate: "preempted<extra></extra>",
    };
  }

  function downTrace(run, scale) {
    const down = run.down || { row: [], rows: [], node: [], start: [], end: [], cause: [] };
    return {
      type: "bar", orientation: "h", name: "nodes down", yaxis: "y", showlegend: false,
      base: down.start.map((tick) => tick * scale), x: down.end.map((end, i) => (end - down.start[i]) * scale),
      y: down.row.map((row, i) => row + down.rows[i] / 2), width: down.rows,
      marker: { color: gpusched.css("--down"), line: { width: 0 } },
      hovertext: down.node.map((node, i) => {
        const from = gpusched.readable(down.start[i] * run.tick_s);
        return `node ${node} is down: ${gpusched.plain(down.cause[i])}<br>${from} to ${gpusched.readable(down.end[i] * run.tick_s)}`;
      }),
      hoverinfo: "text",
    };
  }

  function failTrace(run, scale) {
    return {
      type: "scatter", mode: "markers", name: "failures", yaxis: "y", showlegend: false,
      x: run.failed.at.map((tick) => tick * scale), y: run.failed.row,
      marker: { symbol: "x", size: run.failed.at.length > 300 ? 5 : 9, color: gpusched.css("--cursor"), line: { color: gpusched.css("--ground"), width: 0.7 } },
      hovertemplate: "failed<extra></extra>",
    };
  }

  function lineTrace(line, seconds, axis, number, what) {
    return {
      type: "scatter", mode: "lines", yaxis: axis, showlegend: false, name: what, fill: "tozeroy",
      x: line.at_s.map((time) => time / seconds), y: line.value,
      line: Object.assign({ shape: "hv" }, gpusched.lineStyle(number)), hovertemplate: `%{y:.1f} ${what}<extra></extra>`,
    };
  }

  function heatTrace(run, scale) {
    return {
      type: "heatmap", yaxis: "y4", x: run.links.at.map((tick) => tick * scale), z: run.links.load,
      y: run.links.names.map((name, i) => i), text: run.links.load.map((loads, i) => loads.map(() => gpusched.plain(run.links.names[i]))),
      zmin: 0, zmax: 100, colorscale: "Viridis", hovertemplate: "%{text}: %{z} % of its capacity<extra></extra>",
      colorbar: { title: { text: "load [%]", side: "right" }, thickness: 10, len: 0.27, y: 0, yanchor: "bottom", x: 1.01 },
    };
  }

  /* Lines between machines, thicker between racks of several machines; with many machines, between racks only. */
  function roomLines(run) {
    const lines = [];
    const alone = new Set(run.cluster.rack).size === run.cluster.gpus.length;
    let first = 0;
    run.cluster.gpus.forEach((gpus, node) => {
      const rack = !alone && node > 0 && run.cluster.rack[node] !== run.cluster.rack[node - 1];
      if (node > 0 && (rack || run.cluster.gpus.length <= MOST_NODE_LINES)) {
        lines.push({
          type: "line", xref: "paper", x0: 0, x1: 1, yref: "y", y0: first, y1: first, layer: rack ? "above" : "below",
          line: { color: gpusched.css(rack ? "--text" : "--line"), width: rack ? 1.2 : 0.8 },
        });
      }
      first += gpus;
    });
    return lines;
  }

  function roomTicks(run) {
    const gpus = run.cluster.gpus;
    const nodes = gpus.map((count, node) => ({ name: run.cluster.names ? gpusched.plain(run.cluster.names[node]) : `node ${node}`, count }));
    const racks = [];
    gpus.forEach((count, node) => {
      const rack = run.cluster.rack[node];
      if (racks.length && racks[racks.length - 1].rack === rack) racks[racks.length - 1].count += count;
      else racks.push({ rack, name: `rack ${rack}`, count });
    });
    const parts = nodes.length <= MOST_NAMES || racks.length === 1 || racks.length === nodes.length ? nodes : racks;
    const step = Math.ceil(parts.length / MOST_NAMES);
    const ticks = { tickvals: [], ticktext: [] };
    let first = 0;
    parts.forEach((part, number) => {
      if (number % step === 0) {
        ticks.tickvals.push(first + part.count / 2);
        ticks.ticktext.push(part.name);
      }
      first += part.count;
    });
    return ticks;
  }

  function linkTicks(run, narrow) {
    const short = (name) => (narrow && name.length > 18 ? `${name.slice(0, 9)}\u2026${name.slice(-8)}` : name);
    return { tickvals: run.links.names.map((name, i) => i), ticktext: run.links.names.map((name) => gpusched.plain(short(name))), tickfont: { size: 9 } };
  }

  /* options: {seconds, sign: unit of the axis; range: visible part [units]; cursor [units]; chosen: job row or null} */
  gpusched.gantt = function (run, options) {
    const scale = run.tick_s / options.seconds;
    const gpus = run.cluster.gpus.reduce((sum, count) => sum + count, 0);
    const narrow = gpusched.narrow();
    const traces = [crowdTrace(run, scale), barTrace(run, scale, options.chosen), downTrace(run, scale), markTrace(run, scale), failTrace(run, scale),
      lineTrace(run.lines.held, options.seconds, "y2", 0, "% of GPUs held"), lineTrace(run.lines.waiting, options.seconds, "y3", 1, "jobs waiting")];
    const height = narrow ? 560 : 640;
    const linksHeight = run.links ? Math.max(260, LINK_HEIGHT * run.links.names.length + 90) : 0;
    const low = linksHeight / (height + linksHeight);
    if (run.links) traces.push(heatTrace(run, scale));
    const span = 1 - low;
    const cursor = {
      type: "line", xref: "x", x0: options.cursor, x1: options.cursor, yref: "paper", y0: 0, y1: 1, layer: "above",
      line: { color: gpusched.css("--cursor"), width: 1.6 },
    };
    const layout = gpusched.layout({
      height: height + linksHeight, barmode: "overlay", bargap: 0, uniformtext: { minsize: 8, mode: "hide" }, hovermode: "closest", showlegend: false,
      margin: { l: narrow ? 48 : 64, r: run.links ? 64 : 12, t: 30, b: 44 },
      xaxis: gpusched.axis(`time since the first arrival [${options.sign}]`, { anchor: run.links ? "y4" : "y3", range: options.range, zeroline: false }),
      yaxis: gpusched.axis("", Object.assign({ range: [gpus, 0], domain: [low + 0.42 * span, 1], showgrid: false, zeroline: false }, roomTicks(run))),
      yaxis2: gpusched.axis(narrow ? "held [%]" : "GPUs held [%]", { range: [0, Math.max(102, ...run.lines.held.value)], domain: [low + 0.22 * span, low + 0.38 * span], fixedrange: true, automargin: false }),
      yaxis3: gpusched.counts(narrow ? "waiting" : "jobs waiting", run.lines.waiting.value, { domain: [low, low + 0.18 * span], fixedrange: true, automargin: false }),
      shapes: [cursor].concat(roomLines(run)),
    });
    if (run.links) {
      layout.yaxis4 = gpusched.axis("links", Object.assign({ domain: [0, low - 0.04], showgrid: false, fixedrange: true, automargin: true }, linkTicks(run, narrow)));
    }
    return { traces, layout };
  };
})(window.gpusched);
