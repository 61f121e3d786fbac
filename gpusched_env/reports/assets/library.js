/* The plotting library travels packed. Unpacked, it is an inline script, which the page's policy knows by its sum. */
"use strict";
window.gpusched = window.gpusched || {};
window.gpusched.library = (async () => {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (sign) => sign.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
})();
