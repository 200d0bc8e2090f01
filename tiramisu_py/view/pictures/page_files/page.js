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

function make(parent, tag, css, text) {
  const node = parent.append(tag);
  if (css) node.attr("class", css);
  if (text !== undefined) node.text(text);
  return node;
}

/* ---- one schedule at one size ---- */

class Side {
  constructor(parent, given, number) {
    this.given = given;
    this.number = number;
    this.node = make(parent, "section", "side");
    this.show(given.scenes[0]);
  }

  show(scene) {
    this.scene = scene;
    this.index();
    this.node.html("");
    this.heading();
    for (const each of scene.violations) this.violation(each);
    this.drawing = make(this.node, "div", "drawing");
    this.legend = make(this.drawing, "div", "legend");
    this.panels = make(this.drawing, "div", "panels");
    this.grids = [];
    scene.statements.forEach((statement, number) => { if (this.of[number].length && statement.source) this.statement(statement, number); });
    this.timeline();
    this.messages();
    this.panels = make(this.drawing, "div", "panels");
    scene.arrays.forEach((array, number) => { if (this.elements[number].size) this.array(array, number); });
    this.overlay = make(this.drawing, "svg", "overlay");
    this.commands();
  }

  index() {
    const scene = this.scene;
    scene.instances.forEach((each, order) => { each.order = order; each.reads = []; each.readers = []; each.sent = []; });
    this.elements = scene.arrays.map(() => new Map());
    scene.reads.forEach((read) => {
      if (read.reader < 0) { this.element(read.array, read.element).missing = read; return; }
      scene.instances[read.reader].reads.push(read);
      if (read.writer >= 0) scene.instances[read.writer].readers.push(read);
    });
    for (const message of scene.messages) for (const [from, to] of message.pairs) {
      if (from === to) continue;
      scene.instances[from].sent.push(to);
    }
    this.of = scene.statements.map(() => []);
    scene.instances.forEach((each) => this.of[each.statement].push(each));
    this.stored = new Map();
    for (const each of scene.instances) {
      const statement = scene.statements[each.statement];
      const name = key(statement.source, each.value);
      if (!["copy", "send", "wait", "barrier"].includes(statement.role) && !this.stored.has(name)) this.stored.set(name, each.order);
    }
    for (const each of scene.instances) {
      const array = scene.statements[each.statement].array;
      if (array !== null && each.element) this.element(array, each.element).writes.push(each.order);
    }
    for (const read of scene.reads) if (read.reader >= 0) this.element(read.array, read.element).reads.push(read.reader);
    this.tiles = new Map();
    this.teams = null;
    for (const each of scene.instances) {
      const count = scene.statements[each.statement].tile_loops;
      each.tile = count ? scene.statements[each.statement].loops.slice(0, count).map((l) => l.name).join() + "|" + each.coords.slice(0, count).join() : "";
      if (!count) continue;
      if (!this.tiles.has(each.tile)) this.tiles.set(each.tile, {number: this.tiles.size, members: []});
      this.tiles.get(each.tile).members.push(each);
    }
    this.steps = d3.max(scene.instances, (each) => each.step + 1) || 0;
    this.bad = new Set(scene.reads.filter((read) => read.wrong && read.reader >= 0).map((read) => read.reader));
  }

  element(array, at) {
    const found = this.elements[array], name = at.join();
    if (!found.has(name)) found.set(name, {array, at, writes: [], reads: []});
    return found.get(name);
  }

  last() { return Math.max(0, (state.order === "steps" ? this.steps : this.scene.instances.length) - 1); }
  now() { return Math.min(state.at, this.last()); }
  when(each) { return state.order === "steps" ? each.step : each.order; }

  /* -- words */

  heading() {
    const scene = this.scene;
    const title = make(this.node, data.sides.length > 1 ? "h2" : "h1", "title", this.given.title);
    make(title, "span", "verdict " + scene.verdict, scene.verdict);
    const line = make(this.node, "div", "soft sizes");
    if (this.given.scenes.length > 1) {
      const choice = line.append("select").attr("aria-label", "sizes");
      this.given.scenes.forEach((each, k) => choice.append("option").attr("value", k).property("selected", each === scene).text(this.sizes(each) + (each.violations.some((v) => v.here) ? ": counterexample" : "")));
      choice.on("change", (event) => { this.show(this.given.scenes[+event.target.value]); restart(); });
      line.append("span").text(" ");
    }
    const words = [this.given.scenes.length > 1 ? "" : this.sizes(scene), many(scene.instances.length, "instance"), many(this.steps, "step") + " if all that may run at the same time does"];
    if (scene.executors.length > 1) words.push(many(scene.executors.length, "executor"));
    if (this.bad.size) words.push(many(this.bad.size, "instance") + " with a wrong read");
    line.append("span").text(words.filter((word) => word).join(" · "));
  }

  sizes(scene) { return Object.entries(scene.sizes).map(([name, value]) => `${name} = ${value}`).join(", ") || "one size"; }

  violation(each) {
    const box = make(this.node, "div", "violation");
    make(box, "b", "", each.kind + ": ");
    make(box, "span", "message", each.message);
    if (each.command) make(make(box, "div", "", "command: "), "code", "command", each.command);
    if (each.repair) make(make(box, "div", "", "repair: "), "code", "repair", each.repair);
    if (!each.here && (each.reader !== null || each.writer !== null)) make(box, "div", "soft", "In the picture: a pair like it at these sizes.");
  }

  name(each) { const statement = this.scene.statements[each.statement]; return statement.source ? indexed(statement.source, each.value) : statement.name; }

  /* -- colours */

  colour(each) {
    if (each === null) return "var(--line)";
    if (state.colour === "executor") return this.ofExecutor(each.who);
    if (state.colour === "tile") return each.tile ? several(this.tiles.get(each.tile).number) : "var(--none)";
    if (state.colour === "statement") return several(each.statement);
    return d3.interpolateViridis(0.08 + 0.84 * this.when(each) / Math.max(1, this.last()));
  }

  /* A colour for each of a few executors; of many, a colour for each rank, block or core, and shades for its threads. */
  ofExecutor(who) {
    if (!this.teams) {
      this.teams = this.scene.executors.length <= palette.length ? d3.groups(d3.range(this.scene.executors.length), (k) => k) : d3.groups(d3.range(this.scene.executors.length), (k) => this.scene.executors[k].replace(/, thread .*/, ""));
      this.shades = [];
      this.teams.forEach(([, members], team) => members.forEach((member, k) => { const colour = d3.hsl(several(team)); if (members.length > 1) colour.l += 0.24 * (k / (members.length - 1) - 0.5); this.shades[member] = colour.formatHex(); }));
    }
    return this.shades[who];
  }

  keys() {
    const legend = this.legend.html(""), scene = this.scene;
    const entry = (colour, text, ring) => {
      const item = make(legend, "span", "key");
      make(item, "span", "swatch" + (ring ? " ring" : "")).style(ring ? "border-color" : "background", colour);
      make(item, "span", "", text);
    };
    if (state.colour === "executor") {
      this.ofExecutor(0);
      for (const [name, members] of this.teams.slice(0, 12)) entry(several(this.teams.findIndex((team) => team[0] === name)), members.length > 1 ? `${name}: ${many(members.length, "thread")}` : scene.executors[members[0]]);
      if (this.teams.length > 12) make(legend, "span", "soft", `and ${this.teams.length - 12} more`);
    }
    if (state.colour === "statement") scene.statements.forEach((each, k) => { if (this.of[k].length) entry(several(k), each.name); });
    if (state.colour === "tile") entry(several(0), `a colour for each of ${many(this.tiles.size, "tile")}`);
    if (state.colour === "order") { entry(d3.interpolateViridis(0.08), "first"); entry(d3.interpolateViridis(0.92), "last"); }
    entry("var(--text)", "running now", true);
    if (scene.reads.some((read) => read.wrong) || scene.violations.length) entry("var(--bad)", "violation", true);
    if (this.tiles.size) entry("var(--tile)", "outline of a tile", true);
    entry("var(--read)", "element read", true);
    entry("var(--stored)", "element stored", true);
  }

  /* -- panels */

  statement(statement, number) {
    const own = this.of[number], loops = statement.loops.map((loop) => loop.name);
    const panel = make(this.panels, "div", "panel statement").attr("data-statement", statement.name);
    const header = make(panel, "header");
    make(header, "h3", "", indexed(statement.name, statement.dims));
    make(header, "div", "code soft", statement.text);
    const tags = statement.loops.map((loop) => loop.tag ? `${loop.name} (${loop.tag})` : loop.name).join(", ");
    const tiles = statement.tile_loops ? ", " + many(new Set(own.map((each) => each.tile)).size, "tile") : "";
    const may = statement.may ? ", only where its condition holds" : "";
    make(header, "div", "soft", many(own.length, "instance") + tiles + may + (loops.length ? `; loops ${tags}` : "; no loop"));
    const spaces = {values: {dims: statement.dims, at: (each) => each.point}};
    if (loops.join() !== statement.dims.join() && loops.length) spaces.loops = {dims: loops, at: (each) => each.coords};
    const style = (cells) => cells.attr("data-order", (each) => each.order).classed("may", statement.may).classed("bad", (each) => this.bad.has(each.order));
    this.grids.push(new Grid(this, panel, header, own, spaces, 0, "instance", style));
  }

  array(array, number) {
    const own = [...this.elements[number].values()];
    const panel = make(this.panels, "div", "panel array").attr("data-array", array.name);
    const header = make(panel, "header");
    make(header, "h3", "", `array ${array.name} (${array.memory})`);
    const size = array.extents.join(" × ") || "1", copies = new Set(own.map((each) => each.at.slice(0, array.owners).join())).size;
    const where = array.owners ? `, in ${many(copies, "copy").replace("copy", copies === 1 ? "copy" : "copies")} (one for each ${array.dims.slice(0, array.owners).join(", ")})` : "";
    make(header, "div", "soft", `${size} elements of ${array.dtype}`);
    make(header, "div", "soft", `used: ${many(own.length, "element")} (${many(own.length * array.bytes, "byte")})${where}`);
    const line = make(header, "div", "soft footprint");
    const grid = new Grid(this, panel, header, own, {index: {dims: array.dims, at: (each) => each.at}}, array.ranks, "element", (cells) => cells.attr("data-element", (each) => each.at.join()).classed("bad", (each) => each.missing !== undefined));
    grid.isArray = true;
    grid.line = line;
    grid.array = array;
    this.grids.push(grid);
  }

  /* -- time */

  timeline() {
    const scene = this.scene, words = (who, level) => who.split(", ").slice(0, level).join(", ");
    const plain = (end) => end.replace(/, the host$/, "");
    let names = scene.executors, level = 9;
    const distinct = () => [...new Set(scene.executors.map((who) => words(who, level)))];
    for (level = 4; level > 0 && distinct().length > MOST_LANES; level--);
    names = level ? distinct() : ["all executors"];
    const ends = [...new Set(scene.messages.flatMap((message) => [message.sender, message.receiver]))].map(plain).filter((end) => !names.some((name) => name.startsWith(end)));
    const lanes = [...names, ...ends];
    const lane = (each) => lanes.indexOf(level ? words(scene.executors[each.who], level) : "all executors");
    const left = 16 + 6.8 * d3.max(lanes, (name) => name.length), wide = Math.max(1, Math.min(20, (data.sides.length > 1 ? 360 : 860) / Math.max(1, this.steps)));
    const high = scene.messages.length ? 34 : 24, height = 26 + lanes.length * high + 26, width = left + this.steps * wide + 60;
    const panel = make(this.drawing, "div", "panel time");
    const header = make(panel, "header");
    make(header, "h3", "", "Time: what runs at each step");
    make(header, "div", "soft", "one row for each executor" + (scene.messages.length ? "; arrows are messages, from the send to where they have arrived, and copies" : ""));
    const svg = make(make(panel, "div", "timeline"), "svg").attr("width", width).attr("height", height).attr("role", "img");
    const x = (step) => left + step * wide, y = (k) => 22 + k * high;
    svg.selectAll("line.lane").data(lanes).join("line").attr("class", "lane").attr("x1", left).attr("x2", x(this.steps)).attr("y1", (d, k) => y(k) + high / 2).attr("y2", (d, k) => y(k) + high / 2);
    svg.selectAll("text.lane").data(lanes).join("text").attr("class", "lane label").attr("x", left - 8).attr("text-anchor", "end").attr("y", (d, k) => y(k) + high / 2 + 4).text((d) => d);
    const cells = d3.rollups(scene.instances, (group) => group, (each) => lane(each) * 1e7 + each.step).map(([, group]) => group);
    svg.selectAll("rect.cell").data(cells).join("rect").attr("class", "cell").attr("x", (group) => x(group[0].step)).attr("y", (group) => y(lane(group[0])) + high / 2 - 8).attr("width", Math.max(0.8, wide - 0.6)).attr("height", 16)
      .attr("fill", (group) => several(group[0].statement)).on("pointermove", (event, group) => tip(event, [`step ${group[0].step + 1}: ${many(group.length, "instance")} of ${[...new Set(group.map((each) => scene.statements[each.statement].name))].join(", ")}`])).on("pointerleave", untip)
      .on("click", (event, group) => { state.order = "steps"; d3.select("#order").property("value", "steps"); state.at = group[0].step; update(); });
    this.sends(svg, lanes, lane, x, y, wide, high);
    const gap = Math.max(1, Math.ceil(46 / wide / 5) * 5), ticks = this.steps > 12 ? d3.range(0, this.steps, gap) : d3.range(0, this.steps, Math.ceil(30 / wide));
    svg.selectAll("text.tick").data(ticks).join("text").attr("class", "tick label").attr("text-anchor", "middle").attr("x", (step) => x(step) + wide / 2).attr("y", height - 12).text((step) => step + 1);
    svg.append("text").attr("class", "axis label").attr("x", left - 8).attr("y", height - 12).attr("text-anchor", "end").text("step");
    this.cursor = svg.append("line").attr("class", "now").attr("y1", 14).attr("y2", height - 26);
    this.cursorAt = (step) => this.cursor.attr("x1", x(step) + wide / 2).attr("x2", x(step) + wide / 2);
    const keys = make(panel, "div", "legend");
    scene.statements.forEach((each, k) => { if (this.of[k].length) { const item = make(keys, "span", "key"); make(item, "span", "swatch").style("background", several(k)); make(item, "span", "", each.name); } });
  }

  sends(svg, lanes, lane, x, y, wide, high) {
    const drawn = this.scene.messages.filter((message) => message.pairs.length).map((message) => ({message, from: message.sent, to: message.arrived}));
    const find = (end) => lanes.findIndex((name) => name.startsWith(end.replace(/, the host$/, "")));
    svg.selectAll("path.sent").data(drawn).join("path").attr("class", "arrow message sent").attr("marker-end", "url(#head-message)")
      .attr("d", ({message, from, to}) => {
        const a = [x(from) + wide / 2, y(find(message.sender)) + high / 2], b = [x(to) + wide / 2 + (from === to ? wide / 3 : 0), y(find(message.receiver)) + high / 2];
        const down = Math.sign(b[1] - a[1]) || 1;
        return `M ${a[0]} ${a[1] + 8 * down} L ${b[0]} ${b[1] - 9 * down}`;
      });
  }

  messages() {
    const scene = this.scene;
    if (!scene.messages.length) return;
    const panel = make(this.drawing, "div", "panel sent").style("margin-top", "16px");
    make(make(panel, "header"), "h3", "", "Messages and copies");
    const table = make(panel, "table", "messages");
    const head = make(table, "tr");
    ["name", "from", "to", "messages", "elements", "bytes"].forEach((word) => make(head, "th", "", word));
    const grouped = d3.groups(scene.messages, (m) => m.name, (m) => m.sender, (m) => m.receiver);
    for (const [name, senders] of grouped) for (const [sender, receivers] of senders) for (const [receiver, all] of receivers) {
      const row = make(table, "tr", "message");
      [name, sender, receiver, all.length, d3.sum(all, (m) => m.pairs.length), d3.sum(all, (m) => m.bytes)].forEach((value) => make(row, "td", "", value));
    }
  }

  commands() {
    const all = this.scene.commands;
    if (!all.length) return;
    const details = make(this.node, "details").property("open", all.length <= 12);
    make(details, "summary", "", many(all.length, "command"));
    for (const each of all) make(details, "div", "code", each);
  }

  /* -- the state of now */

  update() {
    const now = this.now(), scene = this.scene;
    const running = scene.instances.filter((each) => this.when(each) === now);
    const hot = state.hot && state.hot.side === this ? state.hot.instance : null;
    const active = hot ? [hot] : running;
    const reads = new Set(), stores = new Set(), footprint = new Map();
    for (const each of active) {
      each.reads.forEach((read) => reads.add(this.element(read.array, read.element)));
      const array = scene.statements[each.statement].array;
      if (array !== null && each.element) stores.add(this.element(array, each.element));
    }
    const tile = (hot || active[0] || {}).tile;
    for (const each of tile ? this.tiles.get(tile).members : []) for (const read of each.reads) {
      if (!footprint.has(read.array)) footprint.set(read.array, new Set());
      footprint.get(read.array).add(this.element(read.array, read.element));
    }
    for (const grid of this.grids) {
      grid.follow(active, now);
      if (grid.isArray) this.updateArray(grid, now, reads, stores, footprint);
      else grid.cells.attr("fill", (each) => this.colour(each)).classed("later", (each) => this.when(each) > now).classed("now", (each) => this.when(each) === now).classed("hot", (each) => each === hot);
    }
    this.cursorAt(state.order === "steps" ? now : (scene.instances[now] || {step: 0}).step);
    this.arrows(hot ? [hot] : this.few(running), hot);
    this.keys();
  }

  /* One of the instances of each of a few executors: arrows of all that runs at once are too many to be seen. */
  few(running) {
    if (running.length <= MOST_POINTED) return running;
    return d3.groups(running, (each) => each.who).slice(0, MOST_POINTED).map(([, group]) => group[Math.floor(group.length / 2)]);
  }

  updateArray(grid, now, reads, stores, footprint) {
    const holds = (each) => { let found = null; for (const order of each.writes) if (this.when(this.scene.instances[order]) <= now) found = this.scene.instances[order]; return found; };
    const number = this.scene.arrays.indexOf(grid.array), touched = footprint.get(number);
    grid.cells.attr("fill", (each) => { each.holds = holds(each); return each.holds ? this.colour(each.holds) : grid.array.callers ? "var(--line)" : "var(--empty)"; })
      .classed("read", (each) => reads.has(each)).classed("stored", (each) => stores.has(each)).classed("footprint", (each) => !reads.has(each) && !stores.has(each) && touched !== undefined && touched.has(each));
    grid.line.text(touched ? `the tile reads ${many(touched.size, "element")} of it: ${many(touched.size * grid.array.bytes, "byte")}` : "");
  }

  center(order) {
    const rect = this.rects.get(order);
    if (!rect) return null;
    const box = rect.getBoundingClientRect(), frame = this.drawing.node().getBoundingClientRect();
    return [box.x + box.width / 2 - frame.x, box.y + box.height / 2 - frame.y, box.width / 2];
  }

  arrows(active, hot) {
    this.rects = new Map();
    for (const grid of this.grids) if (!grid.isArray) { const side = this; grid.cells.each(function (each) { side.rects.set(each.order, this); }); }
    const wanted = [], scene = this.scene;
    const from = (read) => read.wrong ? this.stored.get(key(read.source, read.value)) : read.writer;
    const add = (read) => wanted.push({from: from(read), to: read.reader, kind: read.wrong ? "wrong" : "flow"});
    if (state.arrows === "all") scene.reads.filter((read) => read.reader >= 0).forEach(add);
    else if (state.arrows === "now") active.forEach((each) => { each.reads.forEach(add); if (hot) each.readers.forEach(add); });
    const senders = state.arrows === "all" ? scene.instances : state.arrows === "now" ? active : [];
    for (const each of senders) for (const to of each.sent) wanted.push({from: each.order, to, kind: "message"});
    const seen = new Set(), drawn = [];
    for (const each of scene.violations) if (each.writer !== null && each.reader !== null) wanted.unshift({from: each.writer, to: each.reader, kind: "violation"});
    for (const each of wanted) {
      if (each.from === undefined || each.from < 0 || each.from === each.to || drawn.length >= MOST_ARROWS) continue;
      const name = each.from + ">" + each.to, a = this.center(each.from), b = this.center(each.to);
      if (seen.has(name) || !a || !b) continue;
      seen.add(name);
      drawn.push({...each, d: bent(a, b)});
    }
    const frame = this.drawing.node().getBoundingClientRect();
    this.overlay.attr("width", frame.width).attr("height", frame.height);
    this.overlay.selectAll("path.arrow").data(drawn).join("path").attr("class", (each) => "arrow " + each.kind).attr("data-pair", (each) => each.from + ">" + each.to)
      .attr("marker-end", (each) => `url(#head-${each.kind})`).attr("d", (each) => each.d);
    for (const each of scene.violations) for (const order of [each.writer, each.reader]) if (order !== null && this.rects.has(order)) d3.select(this.rects.get(order)).classed("bad", true);
  }

  /* -- what hovering says */

  words(each) {
    const scene = this.scene, statement = scene.statements[each.statement];
    const lines = [{b: this.name(each) + (statement.source === statement.name ? "" : ` (${statement.name})`)}];
    if (statement.text) lines.push({code: statement.text});
    lines.push(`step ${each.step + 1} of ${this.steps}; number ${each.order + 1} of ${scene.instances.length}`);
    if (statement.loops.length) lines.push("in " + statement.loops.map((loop, k) => `${loop.name} = ${each.coords[k]}`).join(", "));
    lines.push("run by " + scene.executors[each.who]);
    const place = (array, at) => indexed(scene.arrays[array].name, at.slice(scene.arrays[array].owners)) + this.copy(scene.arrays[array], at);
    if (statement.array !== null && each.element) lines.push("stores to " + place(statement.array, each.element));
    for (const read of each.reads.slice(0, 12)) {
      const finds = read.writer === CALLER ? "the caller's" : read.writer === NOBODY ? "nothing is stored there yet" : `stored at step ${scene.instances[read.writer].step + 1}`;
      const other = read.wrong && read.writer >= 0 ? `finds ${this.name(scene.instances[read.writer])}` : read.wrong && read.writer === CALLER ? "finds what the caller had there" : finds;
      lines.push({text: `reads ${indexed(read.source, read.value)} from ${place(read.array, read.element)}: ${other}`, wrong: read.wrong});
    }
    if (each.reads.length > 12) lines.push(`and ${each.reads.length - 12} more reads`);
    return lines;
  }

  copy(array, at) { return array.owners ? ` (${array.dims.slice(0, array.owners).map((name, k) => `${name} ${at[k]}`).join(", ")})` : ""; }

  elementWords(each) {
    const array = this.scene.arrays[each.array];
    const lines = [{b: indexed(array.name, each.at.slice(array.owners)) + this.copy(array, each.at)}];
    lines.push(each.holds ? `holds ${this.name(each.holds)}, stored at step ${each.holds.step + 1} by ${this.scene.executors[each.holds.who]}` : array.callers ? "holds what the caller passed" : "nothing is stored here yet");
    if (each.missing) lines.push({text: `the caller finds no ${indexed(each.missing.source, each.missing.value)} here at the end`, wrong: true});
    lines.push(`stored ${many(each.writes.length, "time")}, read ${many(each.reads.length, "time")}`);
    return lines;
  }
}

function bent(a, b) {
  const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, ux = (b[0] - a[0]) / length, uy = (b[1] - a[1]) / length;
  const bend = Math.min(26, 0.16 * length), end = [b[0] - ux * Math.min(b[2], length / 3), b[1] - uy * Math.min(b[2], length / 3)];
  return `M ${a[0]} ${a[1]} Q ${(a[0] + b[0]) / 2 + uy * bend} ${(a[1] + b[1]) / 2 - ux * bend} ${end[0]} ${end[1]}`;
}

/* ---- a grid of cells: instances at their points, or elements of an array; further dimensions are slices ---- */

class Grid {
  constructor(side, panel, header, items, spaces, ranks, kind, style) {
    Object.assign(this, {side, items, spaces, ranks, kind, style, space: Object.keys(spaces)[0]});
    this.choices = make(header, "div", "choices");
    this.facets = make(panel, "div", "facets");
    this.chosen = {};
    this.prepare();
  }

  get dims() { return this.spaces[this.space].dims; }
  at(each) { return this.spaces[this.space].at(each); }

  prepare() {
    const count = this.dims.length;
    this.values = this.dims.map((name, k) => [...new Set(this.items.map((each) => this.at(each)[k]))].sort((a, b) => a - b));
    const ranks = this.space === "index" ? this.ranks : 0;
    const copies = d3.range(ranks).reduce((product, k) => product * this.values[k].length, 1);
    this.facetDims = copies <= MOST_FACETS ? d3.range(ranks) : [];
    const free = d3.range(count).filter((k) => !this.facetDims.includes(k));
    const long = free.filter((k) => this.values[k].length > 1), kept = long.length >= 2 ? long.slice(-2) : free.slice(-2);
    this.x = kept.length ? kept[kept.length - 1] : null;
    this.y = kept.length > 1 ? kept[0] : null;
    this.slices = {};
    this.controls();
    this.draw();
  }

  controls() {
    const box = this.choices.html("");
    const select = (label, options, value, change) => {
      const item = make(box, "label", "soft", label + " ");
      const node = item.append("select").on("change", (event) => change(event.target.value));
      options.forEach(([name, text]) => node.append("option").attr("value", name).property("selected", String(name) === String(value)).text(text));
      return node;
    };
    if (Object.keys(this.spaces).length > 1) select("axes:", [["values", "values"], ["loops", "loops"]], this.space, (name) => { this.space = name; this.chosen = {}; this.prepare(); update(); });
    const free = d3.range(this.dims.length).filter((k) => !this.facetDims.includes(k));
    if (free.length > 2) for (const axis of ["x", "y"]) select(axis === "x" ? "to the right:" : "downwards:", free.map((k) => [k, this.dims[k]]), this[axis], (k) => {
      const other = axis === "x" ? "y" : "x";
      if (+k === this[other]) this[other] = this[axis];
      this[axis] = +k; this.slices = {}; this.controls(); this.draw(); update();
    });
    this.sliders = {};
    for (const k of free) {
      if (k === this.x || k === this.y || this.values[k].length < 2) continue;
      if (!(k in this.slices)) this.slices[k] = this.values[k][this.values[k].length - 1];
      this.sliders[k] = select(this.dims[k] + ":", [["follow", `${this.slices[k]} (now)`], ...this.values[k].map((v) => [v, v])], k in this.chosen ? this.chosen[k] : "follow", (value) => {
        if (value === "follow") delete this.chosen[k]; else { this.chosen[k] = +value; this.slices[k] = +value; }
        this.draw(); update();
      });
    }
  }

  /* Move the slices to what runs now, unless they were chosen by hand. */
  follow(active, now) {
    const mine = active.find((each) => this.isArray ? this.touched(each) : this.items.includes(each)) || (this.isArray ? null : this.items.filter((each) => this.side.when(each) <= now).at(-1));
    if (!mine || !Object.keys(this.slices).length) return;
    const at = this.isArray ? this.touched(mine) : this.at(mine);
    let moved = false;
    for (const k of Object.keys(this.slices)) if (!(k in this.chosen) && this.slices[k] !== at[k]) { this.slices[k] = at[k]; moved = true; }
    if (!moved) return;
    for (const [k, node] of Object.entries(this.sliders)) node.select("option").text(`${this.slices[k]} (now)`);
    this.draw();
  }

  touched(each) {
    const number = this.side.scene.arrays.indexOf(this.array);
    if (this.side.scene.statements[each.statement].array === number && each.element) return each.element;
    const read = each.reads.find((one) => one.array === number);
    return read && read.element;
  }

  draw() {
    this.facets.html("");
    const shown = this.items.filter((each) => Object.entries(this.slices).every(([k, value]) => this.at(each)[k] === value));
    const [x0, x1] = this.x === null ? [0, 0] : range(this.values[this.x]), [y0, y1] = this.y === null ? [0, 0] : range(this.values[this.y]);
    const columns = x1 - x0 + 1, rows = y1 - y0 + 1, groups = this.facetDims.length ? d3.groups(shown, (each) => this.facetDims.map((k) => this.at(each)[k]).join()) : [["", shown]];
    const room = data.sides.length > 1 ? 420 : groups.length > 1 ? 300 : 520;
    const size = Math.max(4, Math.min(26, Math.floor(room / columns), Math.floor(460 / rows)));
    groups.sort((a, b) => d3.ascending(a[0], b[0]));
    for (const [name, items] of groups) this.facet(name, items, {x0, y0, columns, rows, size});
    this.cells = this.facets.selectAll("rect." + this.kind);
  }

  facet(name, items, {x0, y0, columns, rows, size}) {
    const box = make(this.facets, "div", "facet");
    if (name !== "") make(box, "div", "soft", this.facetDims.map((k, i) => `${this.dims[k]} ${name.split(",")[i]}`).join(", "));
    const digits = String(y0 + rows - 1).length, named = (axis) => axis === null ? 0 : this.dims[axis].length;
    const left = this.y === null ? 8 : 16 + 7.5 * Math.max(digits, named(this.y) + 1), top = this.x === null ? 8 : 38;
    const width = Math.max(left + columns * size + 14, left + 8 + 8 * named(this.x)), height = top + rows * size + 8;
    const holder = make(box, "div").style("position", "relative");
    const svg = make(holder, "svg", "grid").attr("width", width).attr("height", height);
    const labels = make(holder, "svg", "labels").attr("width", width).attr("height", height);
    const cells = d3.groups(items, (each) => this.column(each) + "," + this.row(each)).map(([, group]) => group);
    const gap = size < 8 ? 0.5 : 2, inset = (whole) => Math.max(1, whole - gap);
    const placed = cells.flatMap((group) => {
      const across = Math.ceil(Math.sqrt(group.length)), down = Math.ceil(group.length / across);
      return group.map((each, k) => ({each, x: left + (this.column(each) - x0 + (k % across) / across) * size, y: top + (this.row(each) - y0 + Math.floor(k / across) / down) * size, w: inset(size / across), h: inset(size / down)}));
    });
    const rects = svg.selectAll("rect").data(placed).join("rect").attr("class", this.kind).attr("x", (p) => p.x + gap / 2).attr("y", (p) => p.y + gap / 2).attr("width", (p) => p.w).attr("height", (p) => p.h).attr("rx", Math.min(3, size / 6)).datum((p) => p.each);
    this.style(rects);
    this.listen(rects);
    if (this.kind === "instance") svg.append("path").attr("class", "tile").attr("d", this.outlines(cells, left, top, x0, y0, size));
    this.label(labels, left, top, x0, y0, columns, rows, size);
  }

  column(each) { return this.x === null ? 0 : this.at(each)[this.x]; }
  row(each) { return this.y === null ? 0 : this.at(each)[this.y]; }

  listen(rects) {
    const side = this.side;
    rects.on("pointermove", (event, each) => {
      if (this.kind === "instance") { point(side, each); tip(event, side.words(each)); } else tip(event, side.elementWords(each));
    }).on("pointerleave", () => { untip(); if (!state.pinned) point(side, null); })
      .on("click", (event, each) => { if (this.kind === "instance") { state.pinned = false; point(side, each); state.pinned = true; event.stopPropagation(); } });
  }

  /* The lines between neighbouring cells of different tiles. */
  outlines(cells, left, top, x0, y0, size) {
    const tile = new Map(), lines = [];
    for (const group of cells) tile.set(this.column(group[0]) + "," + this.row(group[0]), [...new Set(group.map((each) => each.tile))].sort().join("+"));
    if (![...tile.values()].some((name) => name)) return "";
    for (const [place, name] of tile) {
      const [c, r] = place.split(",").map(Number), x = left + (c - x0) * size, y = top + (r - y0) * size, other = (dc, dr) => tile.get((c + dc) + "," + (r + dr));
      if (other(1, 0) !== name) lines.push(`M ${x + size} ${y} v ${size}`);
      if (other(0, 1) !== name) lines.push(`M ${x} ${y + size} h ${size}`);
      if (other(-1, 0) === undefined) lines.push(`M ${x} ${y} v ${size}`);
      if (other(0, -1) === undefined) lines.push(`M ${x} ${y} h ${size}`);
    }
    return lines.join(" ");
  }

  label(svg, left, top, x0, y0, columns, rows, size) {
    const nice = (gap) => [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128].find((step) => step * size >= gap) || 256;
    const text = (css, x, y, anchor, words) => svg.append("text").attr("class", css + " label").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(words);
    if (this.x !== null) {
      const digits = Math.max(String(x0).length, String(x0 + columns - 1).length), step = nice(8 + 7.5 * digits);
      text("axis", left, 12, "start", this.dims[this.x] + " →");
      for (let k = 0; k < columns; k += step) text("tick", left + (k + 0.5) * size, 31, "middle", x0 + k);
    }
    if (this.y !== null) {
      text("axis", left - 7, 31, "end", this.dims[this.y] + "↓");
      for (let k = 0; k < rows; k += nice(15)) text("tick", left - 7, top + (k + 0.5) * size + 4, "end", y0 + k);
    }
  }
}

/* ---- hovering ---- */

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
  if (sides.length > 1) differing(side, instance);
}

/* Mark, on both sides, the instances whose order relative to this one is not the same on both. */
function differing(side, instance) {
  for (const each of sides) for (const grid of each.grids) if (!grid.isArray) grid.cells.classed("differs", false);
  if (!instance) return;
  const name = (of, each) => { const s = of.scene.statements[each.statement]; return s.role + " " + key(s.source, each.point); };
  const tables = sides.map((of) => { const found = new Map(); for (const each of of.scene.instances) { const at = name(of, each); found.set(at, found.has(at) ? null : each); } return found; });
  const mine = tables.map((table) => table.get(name(side, instance)));
  if (!mine[0] || !mine[1]) return;
  sides.forEach((each, k) => each.grids.filter((grid) => !grid.isArray).forEach((grid) => grid.cells.filter((one) => one === mine[k]).classed("hot", true)));
  const sign = (k, each) => Math.sign(each.step - mine[k].step), unlike = new Set();
  for (const [at, each] of tables[0]) { const other = tables[1].get(at); if (each && other && sign(0, each) !== sign(1, other)) { unlike.add(each); unlike.add(other); } }
  for (const each of sides) for (const grid of each.grids) if (!grid.isArray) grid.cells.classed("differs", (one) => unlike.has(one));
}

/* ---- the page ---- */

const slider = d3.select("#time"), output = d3.select("#step");

function last() { return d3.max(sides, (side) => side.last()) || 0; }

function update() {
  const end = last();
  state.at = Math.max(0, Math.min(state.at, end));
  slider.attr("max", end).property("value", state.at);
  output.text(`${state.order === "steps" ? "step" : "instance"} ${state.at + 1} of ${end + 1}`);
  for (const side of sides) side.update();
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
