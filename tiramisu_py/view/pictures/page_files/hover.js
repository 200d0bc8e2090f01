/* ---- what hovering says, and what it marks ---- */

Object.assign(Side.prototype, {
  words(each) {
    const scene = this.scene, statement = scene.statements[each.statement];
    const lines = [{b: this.name(each) + this.left(each) + (statement.source === statement.name ? "" : ` (${statement.name})`)}];
    if (statement.text) lines.push({code: statement.text});
    if (each.runs === false) lines.push("its condition does not hold: it does nothing");
    if (each.term !== undefined) lines.push(`its term is ${each.term}; in the end ${indexed(statement.source, each.value)}${this.valued(statement.source, each.value)}`);
    lines.push(`step ${each.step + 1} of ${this.steps}; number ${each.order + 1} of ${scene.instances.length}`);
    if (statement.loops.length) lines.push("in " + statement.loops.map((loop, k) => `${loop.name} = ${each.coords[k]}`).join(", "));
    lines.push("run by " + scene.executors[each.who]);
    const place = (array, at) => indexed(scene.arrays[array].name, at.slice(scene.arrays[array].owners)) + this.copy(scene.arrays[array], at);
    if (statement.array !== null && each.element) lines.push("stores to " + place(statement.array, each.element));
    for (const read of each.reads.slice(0, 12)) {
      const finds = read.writer === CALLER ? "the caller's" : read.writer === NOBODY ? "nothing is stored there yet" : `stored at step ${scene.instances[read.writer].step + 1}`;
      const other = read.wrong && read.writer >= 0 ? `finds ${this.name(scene.instances[read.writer])}${this.left(scene.instances[read.writer])}` : read.wrong && read.writer === CALLER ? "finds what the caller had there" : finds;
      lines.push({text: `reads ${indexed(read.source, read.value)}${read.chain ? "" : this.valued(read.source, read.value)} from ${place(read.array, read.element)}: ${other}`, wrong: read.wrong});
    }
    if (each.reads.length > 12) lines.push(`and ${each.reads.length - 12} more reads`);
    return lines;
  },

  /* " = 0.25", or nothing if the value is not known. A refused schedule may compute others. */
  valued(source, at) {
    const known = this.scene.values[source], value = known && known[at.join()];
    if (value === undefined) return "";
    return this.scene.verdict === "refused" ? ` (${value} by the algorithm)` : ` = ${value}`;
  },

  /* What an instance has stored; a partial result is none of the values. */
  left(each) {
    const statement = this.scene.statements[each.statement];
    return ["init", "update", "combine", "merge"].includes(statement.role) ? "" : this.valued(statement.source, each.value);
  },

  copy(array, at) { return array.owners ? ` (${array.dims.slice(0, array.owners).map((name, k) => `${name} ${at[k]}`).join(", ")})` : ""; },

  elementWords(each) {
    const array = this.scene.arrays[each.array];
    const lines = [{b: indexed(array.name, each.at.slice(array.owners)) + this.copy(array, each.at)}];
    lines.push(each.holds ? `holds ${this.name(each.holds)}${this.left(each.holds)}, stored at step ${each.holds.step + 1} by ${this.scene.executors[each.holds.who]}` : array.callers ? "holds what the caller passed" + (each.passed ? `: ${indexed(each.passed.source, each.passed.value)}${this.valued(each.passed.source, each.passed.value)}` : "") : "nothing is stored here yet");
    if (each.missing) lines.push({text: `the caller finds no ${indexed(each.missing.source, each.missing.value)} here at the end`, wrong: true});
    lines.push(`stored ${many(each.writes.length, "time")}, read ${many(each.reads.length, "time")}`);
    return lines;
  },
});

const box = d3.select("#hover");

function tip(event, lines) {
  box.html("").style("display", "block");
  for (const line of lines) {
    if (typeof line === "string") make(box, "div", "", line);
    else if (line.b !== undefined) make(make(box, "div"), "b", "", line.b);
    else if (line.code !== undefined) make(make(box, "div"), "code", "", line.code);
    else make(box, "div", line.wrong ? "wrong" : "", line.text);
  }
  const size = box.node().getBoundingClientRect();
  box.style("left", Math.max(4, Math.min(event.clientX + 14, innerWidth - size.width - 8)) + "px").style("top", Math.max(4, Math.min(event.clientY + 14, innerHeight - size.height - 8)) + "px");
}

function untip() { box.style("display", "none"); }

function point(side, instance) {
  if (instance && state.pinned && state.hot) { side = state.hot.side; instance = state.hot.instance; }
  if ((state.hot && state.hot.instance) === instance) return;
  state.hot = instance ? {side, instance} : null;
  update();
}

/* Mark, on both sides, the instances whose order relative to this one is not the same on both. */
function differing(hot) {
  for (const each of sides) for (const grid of each.grids) if (!grid.isArray) grid.cells.classed("differs", false);
  if (!hot) return;
  const {side, instance} = hot;
  const name = (of, each) => { const s = of.scene.statements[each.statement]; return s.role + " " + key(s.source, each.point); };
  const tables = sides.map((of) => { const found = new Map(); for (const each of of.scene.instances) { const at = name(of, each); found.set(at, found.has(at) ? null : each); } return found; });
  const mine = tables.map((table) => table.get(name(side, instance)));
  if (!mine[0] || !mine[1]) return;
  sides.forEach((each, k) => each.grids.filter((grid) => !grid.isArray).forEach((grid) => grid.cells.filter((one) => one === mine[k]).classed("hot", true)));
  const sign = (k, each) => Math.sign(each.step - mine[k].step), unlike = new Set();
  for (const [at, each] of tables[0]) { const other = tables[1].get(at); if (each && other && sign(0, each) !== sign(1, other)) { unlike.add(each); unlike.add(other); } }
  for (const each of sides) for (const grid of each.grids) if (!grid.isArray) grid.cells.classed("differs", (one) => unlike.has(one));
}
