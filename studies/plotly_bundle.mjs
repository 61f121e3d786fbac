// Make the bundle of plotly.js for reports: scatter, bar and heatmap, without descriptions of attributes.
//   npm install --ignore-scripts plotly.js@4.1.1 esbuild && node plotly_bundle.mjs plotly-reports.min.js
//   xz --format=xz --lzma2=preset=9e,lc=2,pb=0 plotly-reports.min.js
import * as esbuild from "esbuild";
import fs from "node:fs";

const NOTICE = `/**
* plotly.js (scatter, bar, heatmap - minified) v4.1.1
* Copyright 2012-2026, Plotly, Inc.
* All rights reserved.
* Licensed under the MIT license
*/`;
const ENTRY = `const Plotly = require("plotly.js/lib/core");
Plotly.register([require("plotly.js/lib/bar"), require("plotly.js/lib/heatmap")]);
module.exports = Plotly;`;
const UNUSED =
  /^ *require\('\.\/components\/(annotations3d|images|updatemenus|sliders|rangeselector|rangeslider)'\),\n/gm;
const TEXTS = [
  /\bdescription:\s*\[[\s\S]*?\]\s*\.join\(\s*(?:'[^']*'|"[^"]*")\s*\)/g,
  /\bdescription:\s*'(?:[^'\\\n]|\\.)*'(?:\s*\+\s*'(?:[^'\\\n]|\\.)*')*(?=\s*[,}\n])/g,
];

const COLOURS = `import { modeHsl, modeLrgb, modeRgb, useMode } from "culori/fn";
[modeRgb, modeHsl, modeLrgb].forEach(useMode);
export { converter, formatHex, formatRgb, wcagContrast, wcagLuminance } from "culori/fn";`;

const smaller = (text) => TEXTS.reduce((left, part) => left.replace(part, "description:''"), text.replace(UNUSED, ""));
const plugin = {
  name: "smaller",
  setup(build) {
    build.onLoad({ filter: /plotly\.js[\\/]src[\\/].*\.js$/ }, (file) => ({
      contents: smaller(fs.readFileSync(file.path, "utf8")),
    }));
    build.onResolve({ filter: /^culori$/ }, () => ({ path: "colours", namespace: "own" }));
    build.onLoad({ filter: /^colours$/, namespace: "own" }, () => ({ contents: COLOURS, resolveDir: "." }));
    build.onLoad({ filter: /\.css$/ }, () => ({ contents: "", loader: "empty" }));  // of maps
  },
};
await esbuild.build({
  stdin: { contents: ENTRY, resolveDir: "." }, outfile: process.argv[2], bundle: true, minify: true, format: "iife",
  globalName: "Plotly", target: "es2016", charset: "utf8", legalComments: "eof", plugins: [plugin],
  alias: { stream: "stream-browserify" }, define: { global: "window", "define.amd": "false" },
  banner: { js: NOTICE }, footer: { js: "window.Plotly = Plotly;" },
});
