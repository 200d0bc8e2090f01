/* Draws the scenes in the page's data with d3. A side is one schedule; its instances are numbered in their order. */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const CALLER = -1, NOBODY = -2;
const MOST_ARROWS = 300, MOST_POINTED = 4, MOST_LANES = 16, MOST_FACETS = 6;
const asked = new URLSearchParams(location.hash.slice(1));
const state = {at: Infinity, order: "steps", colour: asked.get("colour") || "", arrows: asked.get("arrows") || "now", hot: null, pinned: false};
const sides = [];
const many = (number, word) => `${number} ${word}${number === 1 ? "" : word.endsWith("y") ? "" : "s"}`.replace(/\d{5,}/g, d3.format(","));
const indexed = (name, point) => point.length ? `${name}[${point.join(", ")}]` : name;
const key = (source, point) => source + "|" + point.join(",");
const range = (values) => d3.extent(values);
const palette = d3.schemeTableau10.filter((colour) => colour !== "#e15759"); // red is for violations
const several = (number) => number < palette.length ? palette[number] : d3.hsl((number * 137.508) % 360, 0.5, 0.45 + 0.2 * ((number * 7 % 5) / 4)).formatHex();

/* Statements have colours of their own, far from those of executors and tiles, which are in the same picture. */
const statementColours = ["#3853dc", "#a5781d", "#dc38dc", "#526f52", "#c47de8", "#38dc53", "#c0c07c", "#dc388a", "#a0a0ee", "#a54a1d"];
const ofStatement = (number) => number < statementColours.length ? statementColours[number] : d3.hsl((100 + number * 137.508) % 360, 0.75, 0.4 + 0.25 * ((number * 7 % 5) / 4)).formatHex();

function make(parent, tag, css, text) {
  const node = parent.append(tag);
  if (css) node.attr("class", css);
  if (text !== undefined) node.text(text);
  return node;
}
