/* ---- paths of arrows that cross no label: the shortest ones, from corner to corner of the labels in between ---- */

const ROOM = 3, MOST_WALLS = 200, BEND = 8, ROUND = 8; // pixels, but for the number of walls

/* The boxes of what arrows go around, in the coordinates of a drawing: [left, top, right, bottom]. */
function labelBoxes(drawing) {
  const frame = drawing.getBoundingClientRect();
  const boxes = (css) => [...drawing.querySelectorAll(css)].map((node) => node.getBoundingClientRect()).filter((box) => box.width && box.height)
    .map(({left, top, right, bottom}) => [left - frame.left, top - frame.top, right - frame.left, bottom - frame.top]);
  const around = boxes(".panels .panel > header, .facet > .soft, .drawing > .legend, .panel.time, .panel.sent"), ticks = boxes("svg.labels text");
  return [...around, ...(ticks.length + around.length > MOST_WALLS ? boxes("svg.labels g") : ticks)];
}

/* Whether the line from p to q has a point inside of a box. */
function meets([left, top, right, bottom], p, q) {
  if (Math.max(p[0], q[0]) <= left || Math.min(p[0], q[0]) >= right || Math.max(p[1], q[1]) <= top || Math.min(p[1], q[1]) >= bottom) return false;
  let first = 0, last = 1;
  for (const [at, along, low, high] of [[p[0], q[0] - p[0], left, right], [p[1], q[1] - p[1], top, bottom]]) {
    if (!along) continue;
    const one = (low - at) / along, other = (high - at) / along;
    first = Math.max(first, Math.min(one, other));
    last = Math.min(last, Math.max(one, other));
  }
  return first < last;
}

class Routes {
  constructor(boxes) {
    this.name = boxes.flat().map(Math.round).join();
    this.walls = boxes.map(([left, top, right, bottom]) => [left - ROOM, top - ROOM, right + ROOM, bottom + ROOM]);
    const corners = this.walls.flatMap(([left, top, right, bottom]) => [[left, top], [right, top], [left, bottom], [right, bottom]]);
    this.corners = corners.filter((at) => at[0] >= 0 && at[1] >= 0 && !this.walls.some((wall) => inside(wall, at)));
    this.kept = new Map(); // the paths that were asked for
    this.known = new Int8Array(this.corners.length ** 2); // of two corners: 1 if the line between them is free, -1 if not
  }

  free(p, q, walls = this.walls) { return !walls.some((wall) => meets(wall, p, q)); }

  /* The points of a path: the ends, and the corners in between. */
  between(a, b) {
    const walls = this.walls.filter((wall) => !inside(wall, a) && !inside(wall, b));
    if (this.free(a, b, walls)) return [a, b];
    const goal = this.corners.length, start = goal + 1, at = (node) => node === goal ? b : node === start ? a : this.corners[node];
    const cost = new Float64Array(goal + 2).fill(Infinity), from = new Int32Array(goal + 2), done = new Uint8Array(goal + 2), open = new Set([start]);
    cost[start] = 0;
    const guess = (node) => cost[node] + Math.hypot(at(node)[0] - b[0], at(node)[1] - b[1]);
    while (open.size) {
      const node = d3.least(open, guess);
      if (node === goal) return this.back(from, start, goal, at);
      open.delete(node);
      done[node] = 1;
      for (let next = 0; next <= goal; next++) {
        if (done[next]) continue;
        const p = at(node), q = at(next), length = cost[node] + Math.hypot(p[0] - q[0], p[1] - q[1]) + BEND;
        if (length >= cost[next] || !this.sees(node, next, p, q, walls)) continue;
        cost[next] = length;
        from[next] = node;
        open.add(next);
      }
    }
    return [a, b];
  }

  back(from, start, goal, at) {
    const found = [];
    for (let node = goal; node !== start; node = from[node]) found.unshift(at(node));
    return [at(start), ...found];
  }

  sees(node, next, p, q, walls) {
    const count = this.corners.length;
    if (node >= count || next >= count) return this.free(p, q, walls);
    const place = node * count + next;
    if (!this.known[place]) this.known[place] = this.known[next * count + node] = this.free(p, q) ? 1 : -1;
    return this.known[place] > 0;
  }

  /* The path of an arrow between two cells, each given by its centre and half of its width. */
  drawn(a, b) {
    const ends = `${a} ${b}`;
    if (!this.kept.has(ends)) this.kept.set(ends, this.found(a, b));
    return this.kept.get(ends);
  }

  /* Bent if nothing is in the way. */
  found(a, b) {
    const curve = bent(a, b);
    if (d3.range(12).every((k) => this.free(on(curve, k / 12), on(curve, (k + 1) / 12)))) return `M ${curve[0]} Q ${curve[1]} ${curve[2]}`;
    const points = this.between(a.slice(0, 2), b.slice(0, 2)), last = points.length - 1;
    points[last] = toward(points[last], points[last - 1], b[2]);
    return `M ${points[0]}` + d3.range(1, last).map((k) => ` L ${toward(points[k], points[k - 1], ROUND)} Q ${points[k]} ${toward(points[k], points[k + 1], ROUND)}`).join("") + ` L ${points[last]}`;
  }
}

function inside([left, top, right, bottom], at) { return left < at[0] && at[0] < right && top < at[1] && at[1] < bottom; }

/* The point some pixels from one point toward another, but at most half of the way. */
function toward(from, to, pixels) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1, part = Math.min(pixels / length, 0.5);
  return [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
}

/* The three points of a quadratic curve from the centre of a cell to the border of another. */
function bent(a, b) {
  const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, ux = (b[0] - a[0]) / length, uy = (b[1] - a[1]) / length;
  const bend = Math.min(26, 0.16 * length), end = [b[0] - ux * Math.min(b[2], length / 3), b[1] - uy * Math.min(b[2], length / 3)];
  return [a.slice(0, 2), [(a[0] + b[0]) / 2 + uy * bend, (a[1] + b[1]) / 2 - ux * bend], end];
}

function on([a, b, c], t) { return [0, 1].map((k) => (1 - t) * (1 - t) * a[k] + 2 * t * (1 - t) * b[k] + t * t * c[k]); }
