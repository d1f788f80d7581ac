// Where a moment stands in a drawing. A long wait would squeeze the work into a line: it is folded.

/** The scale of an exchange from `start` to `end` between two x. `fold` is the width of a folded wait.
 *
 * waits: [[from, to], …]. `fold: 0` shows true scale.
 */
export function makeScale({ start = 0, end, waits, left, right, fold }) {
  const lasted = (all) => all.reduce((sum, [from, to]) => sum + to - from, 0);
  const work = end - start - lasted(waits);
  const folds = fold ? waits.filter(([from, to]) => to - from > 0.5 * work) : [];
  const open = Math.max(end - start - lasted(folds), 1);
  const per = Math.max(right - left - folds.length * fold, 1) / open;
  const knots = [[start, left]];
  for (const [from, to] of folds) {
    const [at, x] = knots.at(-1);
    knots.push([from, x + (from - at) * per], [to, x + (from - at) * per + fold]);
  }
  knots.push([Math.max(end, start + 1), right]);
  return { place: (ms) => placeBetween(knots, ms), folds, per, end };
}

function placeBetween(knots, ms) {
  let i = 1;
  while (i < knots.length - 1 && ms > knots[i][0]) i += 1;
  const [a, xa] = knots[i - 1];
  const [b, xb] = knots[i];
  return b === a ? xb : xa + ((Math.max(ms, knots[0][0]) - a) / (b - a)) * (xb - xa);
}
