// Search also where a page cannot fetch another, as from a disk: search_texts.js has the texts of all sections.
// A page is ranked, linked and summarised by its best section.
"use strict";
{
  const SHOWN = 240; // characters of a summary
  const BEFORE = 60; // of them before the first match
  const stemmer = new Stemmer();
  const stem = (word) => {
    let begin = stemmer.stemWord(word);
    while (!word.startsWith(begin)) begin = begin.slice(0, -1);
    return _escapeRegExp(begin);
  };
  const begins = (text) => new RegExp(`(?<![\\p{L}\\p{N}])${text}`, "iu");
  const query = new URLSearchParams(window.location.search).get("q") ?? "";
  const words = splitQuery(query.toLowerCase());
  const terms = words.filter((word) => !stopwords.has(word)).map((word) => begins(stem(word)));
  const pairs = words.slice(1).map((word, at) => begins(`${stem(words[at])}\\p{L}*[^\\p{L}\\p{N}]+${stem(word)}`));

  // Words that stand together tell more than words on the same page, and a title more than a text.
  const score = ([, title, text]) => {
    const found = (patterns, where) => patterns.filter((pattern) => pattern.test(where)).length;
    const all = found(terms, `${title} ${text}`) === terms.length;
    return 5 * all + 3 * found(terms, title) + 10 * found(pairs, title) + 5 * found(pairs, text);
  };

  Scorer.score = (result) => {
    const [page, title, anchor, description, given, , kind] = result;
    const sections = searchTexts[page] ?? [];
    const own = sections.filter(([id]) => !anchor || anchor === `#${id}`);
    if (description || !own.length) return given;
    const best = own.reduce((one, other) => (score(other) > score(one) ? other : one));
    if (!anchor && best !== sections[0]) {
      result[1] = `${title} > ${best[1]}`;
      result[2] = `#${best[0]}`;
    }
    return (kind === SearchResultKind.text ? 0 : given) + score(best);
  };

  window.fetch = async (url) => ({ text: async () => url });

  Search.makeSearchSummary = (url, keywords, anchor) => {
    const root = document.documentElement.dataset.content_root;
    const page = url.slice(root.length, -DOCUMENTATION_OPTIONS.FILE_SUFFIX.length);
    const sections = searchTexts[page] ?? [];
    const [, , text] = sections.find(([id]) => anchor === `#${id}`) ?? sections[0] ?? ["", "", ""];
    const at = [...pairs, ...terms].map((pattern) => text.search(pattern)).find((place) => place >= 0) ?? 0;
    const start = at > BEFORE ? text.lastIndexOf(" ", at - BEFORE) + 1 : 0;
    const summary = document.createElement("p");
    summary.classList.add("context");
    summary.textContent =
      (start ? "..." : "") + text.slice(start, start + SHOWN).trim() + (start + SHOWN < text.length ? "..." : "");
    return summary;
  };
}
