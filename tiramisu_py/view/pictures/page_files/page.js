/* ---- the page ---- */

const slider = d3.select("#time"), output = d3.select("#step");

function last() { return d3.max(sides, (side) => side.last()) || 0; }

function update() {
  const end = last();
  state.at = Math.max(0, Math.min(state.at, end));
  slider.attr("max", end).property("value", state.at);
  output.text(`${state.order === "steps" ? "step" : "instance"} ${state.at + 1} of ${end + 1}`);
  for (const side of sides) side.update();
  if (sides.length > 1) differing(state.hot);
}

function restart() { state.at = Infinity; state.hot = null; defaults(); update(); }

function defaults() {
  if (state.colour && state.colour !== "auto") return;
  const scene = (test) => sides.some((side) => test(side));
  state.colour = scene((side) => side.scene.executors.length > 1) ? "executor" : scene((side) => side.tiles.size > 1) ? "tile" : "order";
  d3.select("#colour").property("value", state.colour);
}

let running = null;

function play() {
  if (running) { running.stop(); running = null; d3.select("#play").text("▶ play"); return; }
  if (state.at >= last()) state.at = -1;
  d3.select("#play").text("❚❚ pause");
  const pause = Math.max(30, Math.min(500, 12000 / (last() + 1)));
  running = d3.interval(() => { state.at += 1; update(); if (state.at >= last()) play(); }, pause);
}

function compared(parent) {
  if (!data.differences) return;
  const found = data.differences, box = make(parent, "div", "differences");
  make(box, "b", "", `${found.different} of ${many(found.pairs, "pair")} of instances run in another order`);
  make(box, "div", "soft", `${found.reversed} reversed; ${found.apart} at the same time on the left only; ${found.joined} at the same time on the right only; ${found.dependent} reversed pairs depend on each other. Point at an instance to see its pairs.`);
  if (found.alone[0] + found.alone[1]) make(box, "div", "soft", `Not compared, since they run on one side only or more than once: ${many(found.alone[0], "instance")} on the left, ${found.alone[1]} on the right.`);
  for (const words of found.examples) make(box, "div", "example", words);
}

function start() {
  compared(d3.select("#compared"));
  const parent = d3.select("#sides").classed("two", data.sides.length > 1);
  data.sides.forEach((given, number) => sides.push(new Side(parent, given, number)));
  defaults();
  if (asked.has("step")) state.at = +asked.get("step") - 1;
  if (asked.has("order")) state.order = asked.get("order");
  d3.select("#order").property("value", state.order).on("change", (event) => { const part = state.at / Math.max(1, last()); state.order = event.target.value; state.at = Math.round(part * last()); update(); });
  d3.select("#colour").property("value", state.colour).on("change", (event) => { state.colour = event.target.value; update(); });
  d3.select("#arrows").property("value", state.arrows).on("change", (event) => { state.arrows = event.target.value; update(); });
  d3.select("#play").on("click", play);
  d3.select("#back").on("click", () => { state.at -= 1; update(); });
  d3.select("#forward").on("click", () => { state.at += 1; update(); });
  slider.on("input", (event) => { state.at = +event.target.value; update(); });
  addEventListener("click", () => { if (state.pinned) { state.pinned = false; point(sides[0], null); } });
  addEventListener("resize", update);
  update();
  if (asked.has("point")) {
    const order = +asked.get("point"), side = sides[0];
    point(side, side.scene.instances[order]);
    state.pinned = true;
    const rect = side.rects.get(order);
    if (rect) { const at = rect.getBoundingClientRect(); tip({clientX: at.right, clientY: at.bottom}, side.words(side.scene.instances[order])); }
  }
  document.body.dataset.ready = "yes";
}

addEventListener("error", (event) => { document.body.dataset.error = event.message; });
start();
