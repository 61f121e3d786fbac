/* The schedule viewer: one or two runs side by side with a common time slider and a common zoom. */
"use strict";
window.gpusched = window.gpusched || {};
(function (gpusched) {
  const SHOWN = 12;

  /* Jobs waiting and running at a time [s]; null if the run has no data of single jobs. */
  gpusched.stateAt = function (run, time) {
    if (!run.jobs || !run.waits) return null;
    const tick = time / run.tick_s;
    const waiting = [];
    run.waits.job.forEach((job, i) => {
      const end = run.waits.end[i];
      if (run.waits.start[i] <= tick && (end === null || tick < end)) waiting.push({ job, since: run.waits.start[i] * run.tick_s });
    });
    let arrived = 0;
    let finished = 0;
    run.jobs.arrival.forEach((arrival, job) => {
      if (arrival <= tick) arrived += 1;
      if (run.jobs.finish[job] !== null && run.jobs.finish[job] <= tick) finished += 1;
    });
    return { waiting, finished, running: arrived - finished - waiting.length };
  };

  function element(name, text, parent) {
    const made = document.createElement(name);
    made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function showState(box, run, time, chosen) {
    box.replaceChildren();
    const state = gpusched.stateAt(run, time);
    const step = run.lines.held.at_s.findLastIndex((at) => at <= time);
    const held = step >= 0 ? run.lines.held.value[step] : 0;
    if (state === null) {
      element("p", `${held.toFixed(0)} % of GPUs held. This run has too many jobs to list them.`, box);
    } else {
      const counts = `${state.running} running, ${state.waiting.length} waiting, ${state.finished} finished`;
      element("p", `${counts}; ${held.toFixed(0)} % of GPUs held`, box).className = "counts";
      const list = element("ul", "", box);
      for (const one of state.waiting.slice(0, SHOWN)) {
        element("li", `${gpusched.jobName(run, one.job)}, waiting for ${gpusched.readable(time - one.since)}`, list);
      }
      if (state.waiting.length > SHOWN) element("li", `and ${state.waiting.length - SHOWN} more`, list);
    }
    if (chosen !== null && run.jobs) {
      const seconds = (tick) => gpusched.readable(tick * run.tick_s);
      const { arrival, start, finish, preemptions } = run.jobs;
      const end = finish[chosen] === null ? "does not finish" : `finishes at ${seconds(finish[chosen])}`;
      const begin = start[chosen] === null ? "never starts" : `starts at ${seconds(start[chosen])}`;
      const story = `arrives at ${seconds(arrival[chosen])}, ${begin}, ${end}; preemptions: ${preemptions[chosen]}`;
      element("p", `${gpusched.jobName(run, chosen)} ${story}`, box).className = "chosen";
    }
  }

  function notes(run) {
    const told = [];
    if (run.crowded.bars > 0) {
      const gap = gpusched.readable(run.crowded.joined_s);
      told.push(`Grey: ${run.crowded.bars} shorter stays, merged where less than ${gap} lies between them on a GPU. The ${run.crowded.most} largest bars are drawn one by one.`);
    }
    if (run.preempted.at.length < run.preemptions) told.push(`${run.preempted.at.length} of ${run.preemptions} preemptions are marked.`);
    if (run.down) told.push("Dark: nodes that are down. Crosses: gangs that failed.");
    if (run.links && run.links.all > run.links.names.length) {
      told.push(`The ${run.links.names.length} links of ${run.links.all} with the highest mean load are shown.`);
    }
    return told.join(" ");
  }

  /* root: the section of the page; load(key): promise of a run; start: {left, right}, keys or "" */
  gpusched.viewer = function (root, load, start) {
    const at = (name) => root.querySelector(`[data-part="${name}"]`);
    const slider = at("slider");
    const sides = ["left", "right"].map((name) => ({ name, box: at(name), plot: at(`${name}-plot`), key: null, run: null }));
    let chosen = null;
    let range = null;
    let following = false;
    let asked = 0;
    let started = false;

    const shown = () => sides.filter((side) => side.run);
    const end = () => Math.max(...shown().map((side) => side.run.tick_s * side.run.ticks));
    const time = () => (slider.value / slider.max) * end();

    /* The initial time of the slider: when most jobs wait. */
    function busiest(run) {
      const { at_s: at, value } = run.lines.waiting;
      const most = Math.max(...value);
      return most > 0 ? Math.round((slider.max * at[value.indexOf(most)]) / end()) : slider.max / 3;
    }

    function options() {
      const [sign, seconds] = gpusched.unitFor(end());
      const all = [0, (end() / seconds) * 1.005];
      return { sign, seconds, range: range || all, all, cursor: time() / seconds, chosen };
    }

    function showTime() {
      at("time").textContent = gpusched.readable(time());
      for (const side of shown()) {
        showState(side.box.querySelector(".state"), side.run, time(), chosen);
        const cursor = options().cursor;
        if (side.plot.layout) window.Plotly.relayout(side.plot, { "shapes[0].x0": cursor, "shapes[0].x1": cursor });
      }
    }

    /* All jobs of the run, for use with the keyboard; both sides have the same jobs. */
    function fillFollow() {
      const run = shown()[0].run;
      const rows = run.jobs ? run.jobs.id.map((id, row) => row) : [];
      at("follow").replaceChildren(...[["", "no job"]].concat(rows.map((row) => [row, gpusched.jobName(run, row)])).map(([value, text]) => {
        const option = element("option", text);
        option.value = value;
        return option;
      }));
      at("follow").disabled = rows.length === 0;
    }

    function follow(job) {
      chosen = job;
      at("follow").value = job === null ? "" : String(job);
      return drawSides();
    }

    async function drawSides() {
      at("sides").classList.toggle("two", shown().length === 2);
      for (const side of sides) {
        side.box.hidden = !side.run;
        if (!side.run) continue;
        side.box.querySelector("h3").textContent = side.run.label;
        side.box.querySelector(".note").textContent = notes(side.run);
        const fresh = !side.plot.layout;
        await gpusched.draw(side.plot, () => gpusched.gantt(side.run, options()));
        if (fresh) listen(side);
      }
      if (shown().length) showTime();
      root.dataset.drawn = String(Number(root.dataset.drawn || 0) + 1);
    }

    function zoomTo(wanted) {
      range = wanted;
      following = true;
      const now = options();
      const moves = shown().map((side) => window.Plotly.relayout(side.plot, { "xaxis.range": now.range.slice() }));
      return Promise.all(moves).finally(() => { following = false; });
    }

    function listen(side) {
      side.plot.on("plotly_relayout", (change) => {
        if (following) return;
        if (change["xaxis.autorange"]) zoomTo(null);
        else if (change["xaxis.range[0]"] !== undefined) zoomTo([change["xaxis.range[0]"], change["xaxis.range[1]"]]);
      });
      side.plot.on("plotly_click", (click) => {
        const point = click.points.find((one) => one.data.name === "jobs");
        if (!point) return;
        const job = side.run.bars.job[point.pointIndex];
        follow(chosen === job ? null : job);
      });
    }

    async function choose(left, right) {
      const mine = ++asked;
      const keys = [left, right];
      root.querySelector(".failed").textContent = "";
      try {
        const runs = await Promise.all(keys.map((key) => (key ? load(key) : null)));
        if (mine !== asked) return; // another choice was made meanwhile
        sides.forEach((side, number) => { side.key = keys[number]; side.run = runs[number]; });
        chosen = null;
        range = null;
        if (shown().length) fillFollow();
        if (!started && shown().length) slider.value = busiest(shown()[0].run);
        started = started || shown().length > 0;
        await drawSides();
      } catch (error) {
        root.querySelector(".failed").textContent = `Cannot be shown: ${error.message}`;
      }
    }

    let pending = false;
    slider.addEventListener("input", () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => { pending = false; if (shown().length) showTime(); });
    });
    function zoomBy(factor) {
      if (!shown().length) return;
      const now = options();
      const half = ((now.range[1] - now.range[0]) * factor) / 2;
      const from = Math.max(0, Math.min(now.cursor - half, now.all[1] - 2 * half));
      zoomTo(2 * half >= now.all[1] ? null : [from, from + 2 * half]);
    }
    at("follow").addEventListener("change", () => follow(at("follow").value === "" ? null : Number(at("follow").value)));
    at("closer").addEventListener("click", () => zoomBy(0.5));
    at("farther").addEventListener("click", () => zoomBy(2));
    at("all").addEventListener("click", () => shown().length && zoomTo(null));
    const picks = [at("pick-left"), at("pick-right")];
    const pick = () => choose(...picks.map((select) => select.value));
    picks.forEach((select) => select.addEventListener("change", pick));
    picks[0].value = start.left;
    picks[1].value = start.right;
    return { pick, ready: pick() };
  };
})(window.gpusched);
