// Prices and filters (SPEC.md sections 5 and 8): the prices that are decimals, the sums, and what a filter admits.
// Numbers are whole numbers of 10^-60; Infinity where a charge has no price; undefined: the price needs the engine.

import { Invalid } from "./bytes.mjs";
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
const UNKNOWN = { pure: undefined, delta: undefined, rho: undefined, mu_squared: undefined };
const pureOf = (field) => (leaf) => ({ ...UNKNOWN, pure: number(leaf[field]), delta: 0n });
const withDelta = (leaf) => ({ ...UNKNOWN, pure: number(leaf.epsilon), delta: number(leaf.delta) });

/** The smallest price and the realised loss, of a leaf that states its loss. */
function exPost(leaf) {
  const price = withDelta(leaf);
  const loss = leaf.outcome && number(leaf.outcome.epsilon);
  return loss !== undefined && loss < price.pure ? { ...price, pure: loss } : price;
}

const LEAVES = {
  pure_dp: pureOf("epsilon"),
  laplace: pureOf("epsilon"),
  randomized_response: pureOf("epsilon"),
  exponential: pureOf("epsilon"),
  permute_and_flip: pureOf("epsilon"),
  bounded_range: pureOf("eta"),
  approx_dp: withDelta,
  ex_post: exPost,
  sparse_vector: (leaf) => ({ ...withDelta(leaf), ...(leaf.outcome && { pure: undefined }) }),
  gaussian: () => ({ ...UNKNOWN, pure: NONE, delta: 0n }),
  zcdp: (leaf) => ({ pure: NONE, delta: number(leaf.delta), rho: number(leaf.rho), mu_squared: NONE }),
};

const CURRENCIES = ["pure", "delta", "rho", "mu_squared"];
const each = (change) => Object.fromEntries(CURRENCIES.map((name) => [name, change(name)]));
const plus = (left, right) =>
  left === undefined || right === undefined ? undefined : left === NONE || right === NONE ? NONE : left + right;
const larger = (left, right) => (left === undefined || right === undefined ? undefined : left > right ? left : right);
const FREE = { pure: 0n, delta: 0n, rho: 0n, mu_squared: 0n };
const times = (price, count) => each((name) => {
  if (count === 0) return 0n;
  return typeof price[name] === "bigint" ? price[name] * BigInt(count) : price[name];
});

/** The price of a tree under a relation, as far as it is a decimal of section 8. */
export function priced(tree, relation) {
  switch (tree.kind) {
    case "sequence": {
      const run = tree.of.slice(0, tree.done ?? tree.of.length).map((part) => priced(part, relation));
      return run.reduce((sum, price) => each((name) => plus(sum[name], price[name])), FREE);
    }
    case "repeated":
      return times(priced(planned(tree.of), relation), tree.done ?? tree.times);
    case "post_processed":
      return priced(tree.of, relation);
    case "parallel": {
      if (tree.by === undefined && relation !== "add_remove") return UNKNOWN;
      const all = tree.of.map((part) => priced(part, relation));
      return all.reduce((most, price) => each((name) => larger(most[name], price[name])));
    }
    default:
      return LEAVES[tree.kind]?.(tree) ?? UNKNOWN;
  }
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

/** Raises where a charge is below a price that is a decimal; returns the coordinates whose price was not recomputed. */
export function requirePrice(filter, amounts, price, scope) {
  const open = [];
  const covers = (name, least) => {
    if (!(name in amounts)) return;
    if (least === undefined) open.push(name);
    else if (number(amounts[name]) < least) throw new Invalid(`scope ${scope}: ${name} is below the price of the parts`);
  };
  const either = (pure, others) => {
    const inPure = others.every((name) => name in amounts && number(amounts[name]) === 0n);
    if (inPure && price.pure !== undefined && pure in amounts && number(amounts[pure]) >= price.pure) return;
    if (inPure && (number(amounts[pure] ?? "0") > 0n || typeof price.pure === "bigint")) covers(pure, price.pure);
    else open.push(...others.filter((name) => name in amounts));
  };
  const withoutDelta = (name) => (price.delta === undefined ? undefined : price.delta > 0n ? NONE : price[name]);
  if (filter.kind === "allowance") open.push(...coordinates(filter).filter((name) => name in amounts));
  else if (filter.kind === "rdp") either("pure", grid(filter));
  else {
    for (const name of coordinates(filter)) {
      if (name.startsWith("mixed_")) continue;
      covers(name, filter.kind === "pure" || filter.kind === "gdp" ? withoutDelta(name) : price[name]);
    }
    if (filter.kind === "either") for (const [pure, renyi] of mixed(filter)) either(pure, [renyi]);
  }
  return open;
}

/** The coordinates that may fall when a charge settles, and the price each may fall to. */
export function floors(filter, reserved, price) {
  const kept = (name) => number(reserved[name] ?? "0") !== 0n;
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
      return kept("pure") ? { pure: price.pure } : Object.fromEntries(grid(filter).map((name) => [name, undefined]));
    default: {
      const found = { pure: price.pure };
      for (const [pure, renyi] of mixed(filter)) {
        if (kept(renyi)) found[renyi] = undefined;
        else found[pure] = price.pure;
      }
      return found;
    }
  }
}
