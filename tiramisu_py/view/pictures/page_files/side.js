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
    for (const read of scene.reads) if (read.reader >= 0) {
      const element = this.element(read.array, read.element);
      element.reads.push(read.reader);
      if (read.writer === CALLER && !read.wrong) element.passed = read;
    }
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
    if (scene.inputs) words.push(scene.inputs);
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
    if (state.colour === "statement") return ofStatement(each.statement);
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
    const entry = (colour, text, form) => {
      const item = make(legend, "span", "key");
      make(item, "span", "swatch" + (form ? " " + form : "")).style(form ? "border-color" : "background", colour);
      make(item, "span", "", text);
    };
    if (state.colour === "executor") {
      this.ofExecutor(0);
      for (const [name, members] of this.teams.slice(0, 12)) entry(several(this.teams.findIndex((team) => team[0] === name)), members.length > 1 ? `${name}: ${many(members.length, "thread")}` : scene.executors[members[0]]);
      if (this.teams.length > 12) make(legend, "span", "soft", `and ${this.teams.length - 12} more`);
    }
    if (state.colour === "statement") scene.statements.forEach((each, k) => { if (this.of[k].length) entry(ofStatement(k), each.name); });
    if (state.colour === "tile") entry(several(0), `a colour for each of ${many(this.tiles.size, "tile")}`);
    if (state.colour === "order") { entry(d3.interpolateViridis(0.08), "first"); entry(d3.interpolateViridis(0.92), "last"); }
    entry("var(--text)", "running now", "ring");
    if (scene.reads.some((read) => read.wrong) || scene.violations.length) entry("var(--bad)", "violation", "ring");
    if (this.tiles.size) entry("var(--tile)", "outline of a tile", "ring tiled");
    entry("var(--read)", "element read", "ring");
    entry("var(--stored)", "element stored", "ring");
    if (data.sides.length > 1) entry("var(--differs)", "in another order than on the other side", "ring");
  }

  /* -- panels */

  statement(statement, number) {
    const own = this.of[number], loops = statement.loops.map((loop) => loop.name);
    const panel = make(this.panels, "div", "panel statement").attr("data-statement", statement.name);
    const header = make(panel, "header");
    const title = make(header, "h3");
    make(title, "span", "swatch").style("background", ofStatement(number)).attr("title", `${statement.name} in the timeline`);
    title.append("span").text(indexed(statement.name, statement.dims));
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
    this.keys(); // before the arrows: it moves what is below it
    this.arrows(hot ? [hot] : this.few(running), hot);
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
    const box = rect.getBoundingClientRect(), frame = this.drawing.node().getBoundingClientRect(), shown = rect.closest(".facets").getBoundingClientRect();
    if (box.left < shown.left - 1 || box.right > shown.right + 1) return null; // scrolled out of its panel
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
    const seen = new Set(), drawn = [], boxes = labelBoxes(this.drawing.node());
    if (!this.routes || this.routes.name !== boxes.flat().map(Math.round).join()) this.routes = new Routes(boxes);
    for (const each of scene.violations) if (each.writer !== null && each.reader !== null) wanted.unshift({from: each.writer, to: each.reader, kind: "violation"});
    for (const each of wanted) {
      if (each.from === undefined || each.from < 0 || each.from === each.to || drawn.length >= MOST_ARROWS) continue;
      const name = each.from + ">" + each.to, a = this.center(each.from), b = this.center(each.to);
      if (seen.has(name) || !a || !b) continue;
      seen.add(name);
      drawn.push({...each, d: this.routes.drawn(a, b)});
    }
    const frame = this.drawing.node().getBoundingClientRect();
    this.overlay.attr("width", frame.width).attr("height", frame.height);
    this.overlay.selectAll("path.arrow").data(drawn).join("path").attr("class", (each) => "arrow " + each.kind).attr("data-pair", (each) => each.from + ">" + each.to)
      .attr("marker-end", (each) => `url(#head-${each.kind})`).attr("d", (each) => each.d);
    for (const each of scene.violations) for (const order of [each.writer, each.reader]) if (order !== null && this.rects.has(order)) d3.select(this.rects.get(order)).classed("bad", true);
  }
}
