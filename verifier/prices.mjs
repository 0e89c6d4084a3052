// Prices and filters (SPEC.md sections 5 and 8): the prices that are decimals, the sums, and what a filter admits.
// Numbers are whole numbers of 10^-60; Infinity where no theorem gives a price; undefined: the price needs the engine.

import { Invalid } from "./bytes.mjs";
import { muSquared, ofDiscreteLaplace, ofLaplace, ofPure, ofRange, ofRho, roundUp } from "./divergences.mjs";
import { number, numberText, ONE } from "./profile.mjs";

const PARTS = {
  sequence: (tree) => tree.of,
  parallel: (tree) => tree.of,
  filtered: (tree) => tree.of,
};

/** The trees right below a node; none of a leaf. */
export const children = (tree) => (PARTS[tree.kind] ? tree.of : tree.of === undefined ? [] : [tree.of]);

/** Every leaf of a tree. */
export function* leaves(tree) {
  const below = children(tree);
  if (!below.length) yield tree;
  for (const part of below) yield* leaves(part);
}

/** The tree without outcomes, levels reached and counts. */
export function planned(tree) {
  const { outcome: _, done: __, ...rest } = tree;
  if (tree.kind === "chain") delete rest.reached; // a `privacy_curve` has a member of this name that is no outcome
  if (rest.of === undefined) return rest;
  return { ...rest, of: Array.isArray(rest.of) ? rest.of.map(planned) : planned(rest.of) };
}

// ---- prices ---------------------------------------------------------------------------------------------------------

const NONE = Infinity;
const TOO_LARGE = 10n ** 18n * ONE; // a price of so much is none
const CURRENCIES = ["pure", "delta", "rho", "mu_squared"];
const UNKNOWN = {};
const ofEpsilon = (field, more) => (leaf) => ({ pure: number(leaf[field]), delta: 0n, ...more(number(leaf[field])) });
const twice = (relation) => (relation === "replace_one" || relation === "label_flip" ? 2n : 1n);

function approximate({ epsilon, delta }) {
  const price = { pure: number(epsilon), delta: number(delta), ...ofPure(number(epsilon)) };
  return price.delta ? { ...price, mu_squared: NONE } : price;
}

/** The smallest price and the realised loss, of a leaf that states its loss. */
function exPost(leaf) {
  const [cap, loss] = [number(leaf.epsilon), leaf.outcome && number(leaf.outcome.epsilon)];
  return { pure: loss !== undefined && loss < cap ? loss : cap, delta: number(leaf.delta) };
}

function gaussian({ noise_multiplier: sigma }, relation) {
  const mu_squared = muSquared(twice(relation) * ONE, number(sigma));
  return { pure: NONE, delta: 0n, mu_squared, ...ofRho(mu_squared, 2n * ONE) };
}

function gdp(leaf) {
  const square = number(leaf.mu) ** 2n; // of 120 places; sums have 60
  return { pure: NONE, delta: 0n, mu_squared: square % ONE ? undefined : square / ONE, ...ofRho(square, 2n * ONE * ONE) };
}

function discreteGaussian({ sigma, sensitivity }) {
  const { rho } = ofRho(muSquared(number(sensitivity), number(sigma)), 2n * ONE);
  return zcdp(rho, 0n);
}

const zcdp = (rho, delta) => ({ pure: NONE, delta, mu_squared: NONE, ...ofRho(rho, ONE), rho });

const LEAVES = {
  pure_dp: ofEpsilon("epsilon", ofPure),
  laplace: ofEpsilon("epsilon", ofLaplace),
  permute_and_flip: ofEpsilon("epsilon", ofLaplace),
  randomized_response: ofEpsilon("epsilon", () => UNKNOWN),
  exponential: ofEpsilon("epsilon", ofRange),
  bounded_range: ofEpsilon("eta", ofRange),
  discrete_laplace: (leaf) => ({ delta: 0n, ...ofDiscreteLaplace(number(leaf.scale), number(leaf.sensitivity)) }),
  approx_dp: approximate,
  ex_post: exPost,
  sparse_vector: (leaf) => ({ pure: leaf.outcome ? undefined : number(leaf.epsilon), delta: number(leaf.delta) }),
  gaussian,
  gdp,
  discrete_gaussian: discreteGaussian,
  zcdp: (leaf) => zcdp(number(leaf.rho), number(leaf.delta)),
};

const plus = (left, right) =>
  left === undefined || right === undefined ? undefined : left === NONE || right === NONE ? NONE : left + right;
const larger = (left, right) => (left === undefined || right === undefined ? undefined : left > right ? left : right);
const fold = (prices, start, join) =>
  prices.reduce((all, price) => Object.fromEntries(Object.keys(start).map((name) => [name, join(all[name], price[name])])), start);
const times = (price, count) =>
  Object.fromEntries(Object.entries(price).map(([name, one]) => [name, count === 0 ? 0n : typeof one === "bigint" ? one * BigInt(count) : one]));
const free = (orders) => Object.fromEntries([...CURRENCIES, ...orders.map((_, place) => `rdp_${place}`)].map((name) => [name, 0n]));

const known = new Map(); // prices of leaves, most of which come again
const MOST_KNOWN = 10_000;

function leafPrice(leaf, relation, orders) {
  const key = JSON.stringify([leaf, relation, orders.map(String)]);
  if (!known.has(key)) {
    if (known.size === MOST_KNOWN) known.clear();
    const { renyi, ...price } = LEAVES[leaf.kind]?.(leaf, relation) ?? UNKNOWN;
    const each = orders.map((order, place) => [`rdp_${place}`, renyi?.(order)]);
    known.set(key, { ...Object.fromEntries(CURRENCIES.map((name) => [name, price[name]])), ...Object.fromEntries(each) });
  }
  return known.get(key);
}

/**
 * The price of a tree under a relation, as far as section 8 states it: in each currency, and as `rdp_0`, ... the Renyi
 * divergence of each order asked for.
 */
export function priced(tree, relation, orders = []) {
  const below = (part) => priced(part, relation, orders);
  switch (tree.kind) {
    case "sequence":
      return fold(tree.of.slice(0, tree.done ?? tree.of.length).map(below), free(orders), plus);
    case "repeated":
      return times(below(planned(tree.of)), tree.done ?? tree.times);
    case "post_processed":
      return below(tree.of);
    case "parallel":
      if (tree.by === undefined && relation !== "add_remove") return UNKNOWN;
      return fold(tree.of.map(below), free(orders), larger);
    default:
      return leafPrice(tree, relation, orders);
  }
}

/** What an order counts of a price: its divergence, or the order times rho where that is smaller. */
function renyi(price, orders, place) {
  const [own, { rho }] = [price[`rdp_${place}`], price];
  if (own === undefined || rho === undefined) return undefined;
  const ofRho = rho === NONE ? NONE : roundUp(rho * orders[place], ONE * ONE);
  return ofRho < own ? ofRho : own;
}

// ---- filters --------------------------------------------------------------------------------------------------------

const mixed = (filter) => filter.boundaries.map((_, place) => [`mixed_pure_${place}`, `mixed_rdp_${place}`]);
const grid = (filter) => filter.orders.map((_, place) => `rdp_${place}`);

const COORDINATES = {
  pure: () => ["pure"],
  basic: () => ["pure", "delta"],
  zcdp: () => ["rho", "delta"],
  rdp: (filter) => ["pure", ...grid(filter)],
  gdp: () => ["mu_squared"],
  either: (filter) => ["pure", "delta", ...mixed(filter).flat()],
  allowance: () => ["copies", "pure", "delta"],
};

/** The Renyi orders at which a filter counts. */
export function orders(filter) {
  if (filter.kind === "rdp") return filter.orders.map((order) => number(order));
  return filter.kind === "either" ? filter.boundaries.map((one) => ONE + number(one.order_minus_one)) : [];
}

/** The coordinates that a filter sums. */
export const coordinates = (filter) => COORDINATES[filter.kind](filter);

/** Sums in which nothing has happened. */
export const nothing = (filter) =>
  Object.fromEntries(coordinates(filter).map((name) => [name, { total: 0n, unpriced: 0 }]));

/** The sums with a charge, or, of `sign` -1, without it. */
export function changed(sums, amounts, sign = 1) {
  const after = {};
  for (const [name, { total, unpriced }] of Object.entries(sums)) {
    after[name] =
      name in amounts
        ? { total: total + BigInt(sign) * number(amounts[name]), unpriced }
        : { total, unpriced: unpriced + sign };
  }
  return after;
}

const total = (sums, name) => (sums[name].unpriced ? NONE : sums[name].total);

/** Each account of a filter: what it holds and its limit. A mixture's `mixed` is a double of its reading. */
export function accounts(filter, sums) {
  const limits = (names) => Object.fromEntries(names.map(([name, limit]) => [name, [total(sums, name), limit]]));
  switch (filter.kind) {
    case "pure":
      return limits([["pure", number(filter.epsilon)]]);
    case "basic":
      return limits([["pure", number(filter.epsilon)], ["delta", number(filter.delta_sum)]]);
    case "zcdp":
      return limits([["rho", number(filter.rho)], ["delta", number(filter.delta_sum)]]);
    case "gdp": // a square has 120 places: what is cut off admits nothing more, sums have 60
      return limits([["mu_squared", number(filter.mu) ** 2n / ONE]]);
    case "rdp":
      return Object.fromEntries(
        grid(filter).map((name, place) => [
          name,
          [plus(total(sums, "pure"), total(sums, name)), number(filter.epsilons[place])],
        ]),
      );
    case "either":
      return {
        pure: [total(sums, "pure"), number(filter.epsilon)],
        mixed: [reading(filter, sums), number(filter.epsilon)],
        delta: [total(sums, "delta"), number(filter.delta_sum)],
      };
    default:
      return limits([
        ["copies", BigInt(filter.steps) * ONE],
        ["pure", number(filter.epsilon_rest)],
        ["delta", number(filter.delta_rest)],
      ]);
  }
}

const asDouble = (size) => (size === NONE ? NONE : Number(numberText(size)));
const CLOSE = 1e-9; // relative: what a double of the reading, rounded up to twelve digits, may be off

/** The reading of a mixture at its own delta (section 5): exact where it is the sum of pure prices, else a double. */
function reading(filter, sums) {
  const pure = total(sums, "pure");
  const parts = filter.boundaries.map((one, place) => ({
    slope: Number(one.order_minus_one),
    failing: Number(one.delta_boundary),
    spent: mixed(filter)[place].reduce((sum, name) => sum + asDouble(total(sums, name)), 0),
  }));
  const failing = (loss) =>
    parts.reduce((sum, { slope, failing: delta, spent }) => sum + delta * Math.exp(slope * (loss - spent)), 0);
  const height = (loss) => (failing(loss) < 1 ? loss + Math.log1p(-failing(loss)) : -Infinity);
  const most = asDouble(pure);
  let low = 0;
  let high = 1;
  while (high < most && failing(high) < 1 && high < 1e300) high *= 2;
  high = Math.min(high, most);
  if (high >= 1e300) return NONE;
  for (let round = 0; round < 300; round++) {
    const left = low + (high - low) / 3;
    const right = high - (high - low) / 3;
    if (height(left) < height(right)) low = left;
    else high = right;
  }
  return Math.max(0, height((low + high) / 2), height(Math.min(low, most)));
}

/** Whether the accounts are within their limits; undefined where a double is too close to tell. */
function within(filter, held) {
  let unsure = false;
  for (const [name, [spent, limit]] of Object.entries(held)) {
    if (filter.kind === "either" && name === "pure") continue;
    if (typeof spent === "bigint" || spent === NONE) {
      if (spent > limit) return false;
    } else {
      const most = asDouble(limit);
      if (spent > most * (1 + CLOSE)) return false;
      if (spent > most * (1 - CLOSE)) unsure = true;
    }
  }
  return unsure ? undefined : true;
}

/** Whether a filter admits these sums; undefined where that could not be told. */
export function admits(filter, sums) {
  const held = accounts(filter, sums);
  if (filter.kind === "either" && held.pure[0] <= held.pure[1]) held.mixed[0] = held.pure[0]; // never above `pure`
  return within(filter, held);
}

/** Raises unless a refusal shows the numbers of the sums, and what was asked did not fit beside them. */
export function requireRefusal(filter, sums, held, body) {
  const own = accounts(filter, sums);
  const names = Object.keys(own).sort();
  const shown = {
    spent: Object.fromEntries(names.map((name) => [name, own[name][0]])),
    left: Object.fromEntries(names.map((name) => [name, rest(...own[name])])),
    held: Object.fromEntries(Object.entries(accounts(filter, held)).map(([name, [size]]) => [name, size])),
  };
  for (const [member, numbers] of Object.entries(shown)) {
    const told = body[member];
    if (Object.keys(told).sort().join() !== names.join()) throw new Invalid(`${member}: not the accounts of the filter`);
    for (const name of names) {
      const size = number(told[name], { infinite: true });
      if (!agrees(size, numbers[name])) throw new Invalid(`${member}: not the numbers of the scope`);
    }
  }
  if (Object.keys(body.asked).sort().join() !== names.join()) throw new Invalid("asked: not the accounts of the filter");
  const after = Object.fromEntries(
    names.map((name) => {
      const more = number(body.asked[name], { infinite: true });
      const [spent, limit] = own[name];
      if (typeof spent === "number" && spent !== NONE) return [name, [spent + asDouble(more), limit]];
      return [name, [plus(spent, more), limit]];
    }),
  );
  if (within(filter, after) === true) throw new Invalid("asked: the scope would have admitted it");
}

function rest(spent, limit) {
  if (typeof spent === "number" && spent !== NONE) return Math.max(0, asDouble(limit) - spent);
  return spent < limit ? limit - spent : 0n;
}

function agrees(told, found) {
  if (typeof found === "bigint" || found === NONE) return told === found;
  return Math.abs(asDouble(told) - found) <= CLOSE * Math.max(1, found);
}

/** What is left of each account of a scope, as text: spent, limit, left. */
export function balance(filter, sums) {
  const shown = (size) => (typeof size === "bigint" || size === NONE ? numberText(size) : String(Number(size.toPrecision(9))));
  return Object.entries(accounts(filter, sums)).map(([account, [spent, limit]]) => ({
    account,
    spent: shown(spent),
    limit: shown(limit),
    left: shown(rest(spent, limit)),
  }));
}

// ---- charges --------------------------------------------------------------------------------------------------------

/** Raises where a charge is below a price that is known; returns the coordinates whose price was not recomputed. */
export function requirePrice(filter, amounts, price, scope) {
  const open = [];
  /** Whether what is charged of an account covers it in a currency; undefined where that needs the engine. */
  const covers = (needed) => {
    if (Object.values(needed).some((least) => least !== undefined && least >= TOO_LARGE)) return false;
    let isKnown = true;
    for (const [name, least] of Object.entries(needed)) {
      if (!(name in amounts)) continue;
      if (least === undefined) isKnown = undefined;
      else if (number(amounts[name]) < least) return false;
    }
    return isKnown;
  };
  const account = (names, ...currencies) => {
    const charged = names.filter((name) => name in amounts);
    const found = currencies.map(covers);
    if (!charged.length || found.includes(true)) return;
    if (!found.includes(undefined)) throw new Invalid(`scope ${scope}: ${charged.join(", ")} is below the price of the parts`);
    open.push(...charged);
  };
  const own = orders(filter);
  const free = (names) => Object.fromEntries(names.map((name) => [name, 0n]));
  const withoutDelta = (size) => (price.delta === undefined ? undefined : price.delta > 0n ? NONE : size);
  if (filter.kind === "allowance") open.push(...coordinates(filter).filter((name) => name in amounts));
  else if (filter.kind === "rdp") {
    const names = grid(filter);
    const each = names.map((name, place) => [name, withoutDelta(renyi(price, own, place))]);
    account(["pure", ...names], { pure: withoutDelta(price.pure), ...free(names) }, { pure: 0n, ...Object.fromEntries(each) });
  } else {
    const isWhole = filter.kind === "pure" || filter.kind === "gdp";
    for (const name of coordinates(filter)) {
      if (!name.startsWith("mixed_")) account([name], { [name]: isWhole ? withoutDelta(price[name]) : price[name] });
    }
    if (filter.kind === "either") {
      mixed(filter).forEach((names, place) => {
        const [pure, divergence] = names;
        account(names, { [pure]: price.pure, [divergence]: 0n }, { [pure]: 0n, [divergence]: renyi(price, own, place) });
      });
    }
  }
  return open;
}

/** The coordinates that may fall when a charge settles, and the price each may fall to. */
export function floors(filter, reserved, price) {
  const kept = (name) => number(reserved[name] ?? "0") !== 0n;
  const own = orders(filter);
  switch (filter.kind) {
    case "pure":
    case "basic":
      return { pure: price.pure };
    case "allowance":
      return { pure: undefined, copies: undefined };
    case "zcdp":
      return { rho: price.rho };
    case "gdp":
      return { mu_squared: price.mu_squared };
    case "rdp":
      if (kept("pure")) return { pure: price.pure };
      return Object.fromEntries(grid(filter).map((name, place) => [name, renyi(price, own, place)]));
    default: {
      const found = { pure: price.pure };
      mixed(filter).forEach(([pure, divergence], place) => {
        if (kept(divergence)) found[divergence] = renyi(price, own, place);
        else found[pure] = price.pure;
      });
      return found;
    }
  }
}
