// Where a moment stands in a drawing. A long wait would squeeze the work into a line: it is folded.

/** The scale of an exchange from `start` to `end` between two x. `fold` is the width of a folded wait.
 *
 * waits: [[from, to, wide], …]; `wide` is the width of this one, if it has another. `fold: 0` shows true scale.
 * The result: place(ms) → x, `knots` ([ms, x] between which it is even), the waits that were folded, px per ms.
 */
export function makeScale({ start = 0, end, waits, left, right, fold }) {
  const lasted = (all) => all.reduce((sum, [from, to]) => sum + to - from, 0);
  const work = end - start - lasted(waits);
  const folds = fold ? waits.filter(([from, to]) => to - from > 0.5 * work) : [];
  const widths = fitFolds(folds, fold, right - left);
  const open = Math.max(end - start - lasted(folds), 1);
  const per = Math.max(right - left - widths.reduce((sum, one) => sum + one, 0), 1) / open;
  const knots = [[start, left]];
  folds.forEach(([from, to], i) => {
    const [at, x] = knots.at(-1);
    knots.push([from, x + (from - at) * per], [to, x + (from - at) * per + widths[i]]);
  });
  knots.push([Math.max(end, start + 1), right]);
  return { place: (ms) => placeBetween(knots, ms), knots, folds, per, end };
}

// However many there are, at least 40 % is left for the work.
function fitFolds(folds, fold, room) {
  const wished = folds.map(([, , wide]) => wide ?? fold);
  const whole = wished.reduce((sum, one) => sum + one, 0);
  return wished.map((one) => one * Math.min((0.6 * room) / whole, 1));
}

function placeBetween(knots, ms) {
  let i = 1;
  while (i < knots.length - 1 && ms > knots[i][0]) i += 1;
  const [a, xa] = knots[i - 1];
  const [b, xb] = knots[i];
  return b === a ? xb : xa + ((Math.max(ms, knots[0][0]) - a) / (b - a)) * (xb - xa);
}
