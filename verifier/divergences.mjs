// Prices of noise in Renyi divergence and zCDP (SPEC.md section 8, "Prices in decimals"): exponentials and logarithms in
// binary fixed point, of so many places that the twelve digits which are kept are those of every exact computation.

import { Invalid } from "./bytes.mjs";
import { number, ONE } from "./profile.mjs";

const PLACES = 1024n; // binary, behind the point
const UNIT = 1n << PLACES;
const DIGITS = 12;
const smaller = (left, right) => (left < right ? left : right);

/** The least number of 10^-60 with so many significant digits that is not below a quotient of whole numbers, at least 0. */
export function roundUp(numerator, denominator, digits = DIGITS) {
  const whole = (numerator * ONE + denominator - 1n) / denominator;
  const step = 10n ** BigInt(Math.max(0, String(whole).length - digits));
  return ((whole + step - 1n) / step) * step;
}

// ---- fixed point ----------------------------------------------------------------------------------------------------

const fixed = (size) => (size << PLACES) / ONE; // of a number of 10^-60
const ratio = (numerator, denominator) => (numerator << PLACES) / denominator;
const product = (left, right) => (left * right) >> PLACES;

/** e^-x of x >= 0: the series of x / 2^k, below 2^-16, squared k times. */
function decay(x) {
  let halvings = 0n;
  while (x >> halvings > UNIT >> 16n) halvings += 1n;
  if (halvings > 30n) return 0n; // below e^-10000, which is less than the last place
  const small = x >> halvings;
  let [sum, term] = [UNIT, UNIT];
  for (let place = 1n; term !== 0n; place += 1n) {
    term = -product(term, small) / place;
    sum += term;
  }
  for (; halvings > 0n; halvings -= 1n) sum = product(sum, sum);
  return sum;
}

/** The logarithm of y > 0: 2 artanh((y - 1) / (y + 1)), y brought next to 1 by halvings. */
function log(y) {
  const halvings = BigInt(y.toString(2).length - 1) - PLACES;
  const near = halvings > 0n ? y >> halvings : y << -halvings;
  return halvings * (halvings === 0n ? 0n : LN_2()) + nearLog(near);
}

function nearLog(y) {
  const z = ratio(y - UNIT, y + UNIT);
  const square = product(z, z);
  let sum = 0n;
  for (let [power, odd] = [z, 1n]; power !== 0n && power !== -1n; odd += 2n) {
    sum += power / odd;
    power = product(power, square);
  }
  return 2n * sum;
}

let ln2;
const LN_2 = () => (ln2 ??= nearLog(2n * UNIT));

/** A number that is kept of one in fixed point: with a margin of 10^-12 of itself, rounded up. */
const above = (x) => roundUp(x * (10n ** 12n + 1n), UNIT * 10n ** 12n);

// ---- what noise costs -----------------------------------------------------------------------------------------------

const tilt = (size, order) => (((2n * order - ONE) * size) << PLACES) / (ONE * ONE); // (2a - 1) size

/** The zCDP price of any mechanism with an epsilon: epsilon tanh(epsilon / 2). */
function rhoOfPure(epsilon) {
  const w = decay(fixed(epsilon));
  return smaller(epsilon, above(product(fixed(epsilon), ratio(UNIT - w, UNIT + w))));
}

/** The Renyi divergence of any mechanism with an epsilon: that of randomised response. */
function renyiOfPure(epsilon, order) {
  const lost = log(UNIT + decay(fixed(epsilon))) - log(UNIT + decay(tilt(epsilon, order)));
  return smaller(epsilon, above(fixed(epsilon) - (lost * ONE) / (order - ONE)));
}

/** Of an epsilon: `rho`, and `renyi` by order; so of each law below. */
export const ofPure = (epsilon) => ({ rho: rhoOfPure(epsilon), renyi: (order) => renyiOfPure(epsilon, order) });

/** Laplace noise of epsilon = sensitivity / scale. */
export const ofLaplace = (epsilon) => ({
  rho: smaller(epsilon, above(fixed(epsilon) - UNIT + decay(fixed(epsilon)))),
  renyi: (order) => {
    const falling = product(ratio(order - ONE, order), decay(tilt(epsilon, order)));
    const rest = log(UNIT + falling) + log(ratio(order, 2n * order - ONE));
    return smaller(epsilon, above(fixed(epsilon) + (rest * ONE) / (order - ONE)));
  },
});

/** Laplace noise on the integers; `pure` beside the others. */
export function ofDiscreteLaplace(scale, sensitivity) {
  if (sensitivity % ONE !== 0n) throw new Invalid("Laplace noise on the integers, for a sensitivity that is not whole");
  const [step, whole] = [(ONE << PLACES) / scale, sensitivity / ONE];
  const [u, pure] = [decay(step), roundUp(sensitivity, scale)];
  const shrunk = (2n * product(step, u) * UNIT) / (UNIT - product(u, u)); // t / sinh t
  return {
    pure,
    rho: smaller(above(whole * step - product(shrunk, UNIT - decay(whole * step))), rhoOfPure(pure)),
    renyi: (order) => {
      const turn = ((2n * order - ONE) * step) / ONE;
      const r = decay(turn);
      const growing = (UNIT * (UNIT - product(r, u))) / product(UNIT + u, UNIT - r);
      const share = ratio(product(u - r, decay(whole * turn)), UNIT - product(r, u));
      const rest = log(growing) + log(UNIT + share);
      return smaller(above(whole * step + (rest * ONE) / (order - ONE)), renyiOfPure(pure, order));
    },
  };
}

/** A bounded range: eta^2 / 8, or what an epsilon of eta costs. */
export const ofRange = (eta) => ({
  rho: smaller(roundUp(eta * eta, 8n * ONE * ONE), rhoOfPure(eta)),
  renyi: (order) => smaller(roundUp(eta * eta * order, 8n * ONE ** 3n), renyiOfPure(eta, order)),
});

/** zCDP of rho = numerator / denominator. */
export const ofRho = (numerator, denominator) => ({
  rho: roundUp(numerator, denominator),
  renyi: (order) => roundUp(numerator * order, denominator * ONE),
});

/** (shift / sigma)^2, as it is kept. */
export const muSquared = (shift, sigma) => roundUp(shift * shift, sigma * sigma, 40);
