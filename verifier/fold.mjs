// The state and its transitions (SPEC.md sections 7 and 8): `step` takes one entry, and says what it did not recompute.

import { base64, hex, Invalid, Newer, sha256 } from "./bytes.mjs";
import { admits, changed, children, coordinates, floors, leaves, nothing, orders, planned, priced, requirePrice, requireRefusal } from "./prices.mjs";
import { dump, number, numberText, ONE, same } from "./profile.mjs";
import { signedMessage } from "./signed.mjs";
import { Policy } from "./witnesses.mjs";

const APPROVAL = "application/vnd.dpledger.approval.v1+json";
const ENDING = new Set(["progress", "committed", "aborted", "lost"]);
const requireThat = (holds, reason) => {
  if (!holds) throw new Invalid(reason);
};
const isSorted = (names) => names.every((name, place) => place === 0 || names[place - 1] < name);
const sum = (numbers) => numbers.reduce((left, right) => left + right, 0n);

export class State {
  constructor(lastTrusted) {
    this.lastTrusted = lastTrusted; // where the last entry revokes the key
    this.revoked = false;
    this.size = 0;
    this.closed = false;
    this.scopes = new Map();
    this.open = new Map();
    this.intended = new Map();
    this.scopeOf = new Map(); // of every charge there ever was
    this.keys = new Set();
    this.refusals = new Set();
    this.skipped = []; // what this entry left without recomputation
    this.rollbacks = []; // that were accepted, and the scopes that each ended
    this.witnesses = []; // the names of those that the record itself names
    this.elsewhere = []; // charges of runs that this ledger did not see, and whose word they are
  }

  /** Whether the next entry is one of those that stand, as far as its signing key goes. */
  get isTrusted() {
    return this.lastTrusted === undefined || this.size <= this.lastTrusted;
  }

  /** Folds one entry, before which `authority` says who signs. Raises Invalid or Newer where it is no legal next one; returns what was not recomputed. */
  step(entry, authority) {
    this.skipped = [];
    this.authority = authority;
    requireThat(!this.closed || (entry.kind === "key_revoked" && !this.revoked), "nothing may follow a closed ledger");
    requireThat((this.size === 0) === (entry.kind === "ledger_opened"), "ledger_opened is the first entry, and no other");
    STEPS[entry.kind]?.(this, entry);
    const path = entry.path ?? [];
    const names = path.map((one) => one.scope);
    requireThat(isSorted(names), "the levels of a path are not in the order of their ids, each once");
    for (const { scope: name, index } of path) {
      const scope = this.scope(name);
      requireThat(ENDING.has(entry.kind) || !scope.closed || scope.closedAt === this.size, `scope ${name} is closed`);
      requireThat(index === scope.index, `scope ${name}: index ${index}, expected ${scope.index}`);
      scope.index += 1;
    }
    this.size += 1;
    return this.skipped;
  }

  /** Raises unless an entry has the owner's approval where it must, and nowhere else. Before `step`: it counts what stands before the entry. */
  async requireApproval(entry, authority) {
    const { approval, index: _, previous: __, time: ___, ...request } = entry;
    const isAsked = authority?.owner !== undefined && ["scope_opened", "closed", "owner_rotated"].includes(entry.kind);
    requireThat(isAsked === (approval !== undefined), "approval: there exactly where the ledger's owner is asked");
    if (!isAsked) return;
    if (request.path) request.path = request.path.map(({ scope }) => ({ index: 0, scope }));
    if (this.rollbacks.length) request.rollbacks = this.rollbacks.length;
    if (authority.owners.length > 1) request.owner_changes = authority.owners.length - 1;
    const message = signedMessage(APPROVAL, dump(request));
    const keys = entry.kind === "owner_rotated" ? [authority.owner, authority.recovery] : [authority.owner];
    const signature = base64(approval, "approval");
    const holds = await Promise.all(keys.map((key) => key.holds(signature, message)));
    requireThat(holds.includes(true), "approval: not the owner's signature of this");
  }

  skip(what) {
    this.skipped.push(what);
  }

  scope(name) {
    const found = this.scopes.get(name);
    requireThat(found, `scope ${name} was never opened`);
    return found;
  }

  /** The open charge of an entry, whose path is that of the charge. */
  charge(entry) {
    const found = this.open.get(entry.charge);
    requireThat(found, "the charge is not open");
    requireThat(same(entry.path.map((one) => one.scope), found.path), "the path is not that of the charge");
    return found;
  }

  /** The scope that a path is the path of. */
  charged(path) {
    const names = path.map((one) => one.scope);
    const found = names.map((name) => this.scope(name)).find((scope) => same(scope.path, names));
    requireThat(found, "the path is not that of one of its scopes");
    return found;
  }

  /** The digest that a snapshot states. */
  digest() {
    const byId = (left, right) => (left[0] < right[0] ? -1 : 1);
    const state = {
      open: [...this.open].sort(byId).map(([charge, { granted, redeem, reserved }]) => ({ charge, granted, redeem, reserved })),
      scopes: [...this.scopes].sort(byId).map(([scope, one]) => ({
        closed: one.closed,
        epoch: 0,
        index: one.index,
        opened: one.opened,
        scope,
        sums: Object.fromEntries(
          Object.entries(one.sums).map(([name, { total, unpriced }]) => [name, { total: numberText(total), unpriced }]),
        ),
        unfixed: one.instead ? true : undefined,
      })),
      size: this.size,
      ...this.authority.later(),
    };
    return hex(sha256(dump(state)));
  }
}

// ---- ledger and scopes ----------------------------------------------------------------------------------------------

function openLedger(state, entry) {
  if (entry.witness === "after") throw new Newer("witnesses that are asked after the fact");
  requireThat((entry.witness === "before") === "witness_policy" in entry, "witnesses without a policy, or none with one");
  if ("witness_policy" in entry) state.witnesses = Policy.parse(entry.witness_policy).names;
  if ("continues" in entry) throw new Newer("a ledger that continues another one");
}

/** The ledger ends: what was charged after the last trusted entry stands, what came back after it does not. */
function revoke(state, entry) {
  requireThat(entry.last_trusted === state.lastTrusted, "a revocation is the last entry, and names what was folded");
  for (const scope of state.scopes.values()) Object.assign(scope, { closed: true, sums: scope.counted ?? scope.sums });
  Object.assign(state, { closed: true, revoked: true });
}

/** What everything that a filter admits keeps, together: epsilon and delta, where it is stated in these. */
function promised(filter) {
  const deltas = { basic: () => number(filter.delta_sum), pure: () => 0n, allowance: () => number(filter.delta_law) + number(filter.delta_rest) };
  deltas.either = () => sum(filter.boundaries.map((one) => number(one.delta_boundary))) + number(filter.delta_sum);
  if (!(filter.kind in deltas)) return undefined;
  const epsilon = filter.kind === "allowance" ? number(filter.epsilon_law) + number(filter.epsilon_rest) : number(filter.epsilon);
  return { epsilon, delta: deltas[filter.kind]() };
}

function checkBudget(state, budget, filter) {
  const found = promised(filter);
  if (filter.kind === "allowance") state.skip("the epsilon of an allowance's law");
  if (found && budget.kind === "pure_dp") {
    requireThat(found.delta === 0n && number(budget.epsilon) >= found.epsilon, "the budget does not follow from the filter");
  } else if (found && budget.kind === "approx_dp" && number(budget.epsilon) >= found.epsilon && number(budget.delta) >= found.delta) {
    return;
  } else if (filter.kind === budget.kind && filter.kind === "zcdp") {
    const keeps = number(budget.rho) >= number(filter.rho) && number(budget.delta) >= number(filter.delta_sum);
    requireThat(keeps, "the budget does not follow from the filter");
  } else if (filter.kind === budget.kind && filter.kind === "gdp") {
    requireThat(number(budget.mu) >= number(filter.mu), "the budget does not follow from the filter");
  } else if (!(filter.kind === "rdp" && budget.kind === "rdp" && same([filter.orders, filter.epsilons], [budget.orders, budget.epsilons]))) {
    state.skip("that the budget follows from the filter");
  }
}

function openScope(state, entry) {
  const { path, unit, relation, filter, instead, parents = [] } = entry;
  requireThat(path.length === 1 && path[0].index === 0, "a scope opens at index 0 of its own path");
  const name = path[0].scope;
  requireThat(!state.scopes.has(name), `scope ${name} is opened twice`);
  requireThat(isSorted(parents), "the parents are not in the order of their ids, each once");
  const above = parents.map((parent) => state.scope(parent));
  for (const parent of above) {
    requireThat(!parent.closed, `scope ${parent.name} is closed`);
    requireThat(parent.relation === relation && same(parent.unit, unit), `scope ${parent.name} has another relation or unit`);
  }
  for (const rule of instead ? [filter, instead] : [filter]) checkBudget(state, entry.budget, rule);
  requireThat(!instead || !same(instead, filter), "the first charge may fix the filter that is there");
  state.scopes.set(name, {
    name,
    unit,
    relation,
    budget: entry.budget,
    filter,
    instead,
    isFixedLate: false,
    keep: entry.keep,
    path: [...new Set([name, ...above.flatMap((parent) => parent.path)])].sort(),
    opened: state.size,
    index: 0,
    closed: false,
    sums: nothing(filter),
    held: nothing(filter),
    interactions: 0,
    exclusive: 0,
    skipped: 0,
  });
}

function close(state, { path }) {
  if (!path) state.closed = true;
  for (const { scope: name } of path ?? []) {
    const scope = state.scope(name);
    requireThat(!scope.closed, `scope ${name} is closed`);
    Object.assign(scope, { closed: true, closedAt: state.size });
  }
}

function acceptRollback(state, entry) {
  requireThat(entry.size > 0, "no entry was seen");
  const open = [...state.scopes.values()].filter((scope) => !scope.closed);
  for (const scope of open) scope.closed = true;
  state.rollbacks.push({ index: state.size, seen: entry.size, by: entry.by, ended: open.map((scope) => scope.name) });
}

// ---- charges --------------------------------------------------------------------------------------------------------

const isExclusive = (form, parts) =>
  form !== "release" &&
  [...leaves(parts)].some((leaf) => ["zcdp", "ex_post"].includes(leaf.kind) && number(leaf.delta) !== 0n);

function stepsOf(parts) {
  return { sequence: () => parts.of.length, repeated: () => parts.times }[parts.kind]?.();
}

function addTo(scope, amounts, form, exclusive) {
  const names = coordinates(scope.filter);
  requireThat(Object.keys(amounts).every((name) => names.includes(name)), `scope ${scope.name}: another coordinate`);
  scope.sums = changed(scope.sums, amounts);
  scope.held = changed(scope.held, amounts);
  scope.counted &&= changed(scope.counted, amounts);
  scope.interactions += form !== "release";
  scope.exclusive += exclusive;
}

function reserve(state, entry) {
  const { parts, form, attested, levels } = entry;
  const own = state.charged(entry.path);
  requireThat(!state.scopeOf.has(entry.charge), "the charge was used before");
  const key = JSON.stringify([own.name, entry.key]);
  requireThat(!state.keys.has(key), "the key was used before in its scope");
  requireThat(same(levels.map((level) => level.scope), own.path), "the levels are not those of the path");
  requireThat(same(planned(parts), parts), "the parts have an outcome before they ran");
  requireThat(entry.steps === (form === "training" ? stepsOf(parts) : undefined), "the steps are not those of the plan");
  requireThat(form !== "training" || entry.steps !== undefined, "a training run has no steps");
  requireThat(!attested || form !== "release", "a run elsewhere is no release");
  if (attested) {
    checkGroups(own, attested, parts, form === "training");
    state.elsewhere.push({ index: state.size, scope: own.name, by: attested.by });
  }
  if ("plan" in entry) throw new Newer("a registered plan");
  const exclusive = isExclusive(form, parts);
  for (const name of own.path) {
    const scope = state.scope(name);
    requireThat(!scope.exclusive, "an exclusive interaction is open in the scope");
    requireThat(!exclusive || !scope.interactions, "an exclusive interaction overlaps another");
    requireThat(!scope.closed, `scope ${name} is closed`);
  }
  fixFilters(state, own, entry);
  levels.forEach((level) => addTo(state.scope(level.scope), level.amounts, form, exclusive));
  for (const { scope: name } of levels) {
    const scope = state.scope(name);
    const admitted = admits(scope.filter, scope.sums);
    requireThat(admitted !== false, `scope ${name}: the filter does not admit the charge`);
    if (admitted === undefined) state.skip(`scope ${name}: whether the filter admits, which is closer than a double tells`);
  }
  state.scopeOf.set(entry.charge, own.name);
  state.keys.add(key);
  state.open.set(entry.charge, {
    reserved: state.size,
    scope: own.name,
    path: own.path,
    form,
    parts,
    levels,
    exclusive,
    steps: entry.steps,
    granted: 0,
    redeem: entry.redeem,
    replaced: new Set(),
    priced: entry.priced,
    attested: attested !== undefined,
  });
  checkCharge(state, own, entry);
}

function fixFilters(state, own, { fixed = [], attested, redeem }) {
  const named = new Map(fixed.map((one) => [one.scope, one.filter]));
  const names = fixed.map((one) => one.scope);
  requireThat(isSorted(names) && names.every((name) => own.path.includes(name)), "filters are fixed for levels of the path");
  for (const name of own.path) {
    const scope = state.scope(name);
    if (named.has(name)) {
      requireThat(scope.instead, `scope ${name}: its filter was fixed before`);
      requireThat(same(named.get(name), scope.instead), `scope ${name}: not the filter that its opening names`);
      Object.assign(scope, {
        filter: scope.instead,
        isFixedLate: true,
        sums: nothing(scope.instead),
        held: nothing(scope.instead),
      });
    }
    scope.instead = undefined;
    const late = scope.isFixedLate && attested && redeem !== undefined;
    requireThat(!late, `scope ${name}: a run elsewhere that may have begun before its filter was fixed`);
  }
}

/** The groups that stand around the parts of a run elsewhere, innermost first, by what its guarantee holds of. */
function checkGroups(own, { relation, of }, parts, isTraining) {
  requireThat(relation !== undefined || of === undefined, "of what a run elsewhere holds, without the relation");
  if (relation === undefined) return;
  const most = own.unit.max_contributions;
  requireThat(of !== undefined || most === 1, "of what a run elsewhere holds is not said");
  const m = of === "row" ? most : 1;
  const groups = {
    "add_remove add_remove": [[m, "add_remove"]],
    "add_remove replace_one": [[m, "add_remove"], [2, "add_remove"]],
    "zero_out zero_out": [[m, "zero_out"]],
    "zero_out replace_one": m === 1 && [[2, "zero_out"]],
    "replace_one replace_one": m === 1 && [],
    "replace_one label_flip": [[m, "replace_one"], [1, "replace_one"]],
    "label_flip label_flip": [[m, "label_flip"]],
  }[`${relation} ${own.relation}`];
  requireThat(groups, "no rule for a run elsewhere of this relation");
  const around = groups.filter(([k], place) => !(place === 0 && k === 1 && m === 1 && groups[0][0] === m));
  const trees = isTraining ? children(parts) : [parts];
  for (let tree of trees) {
    for (const [k, inner] of [...around].reverse()) {
      requireThat(tree.kind === "group" && tree.k === k && tree.relation === inner, "not in the groups of a run elsewhere");
      tree = tree.of;
    }
  }
}

/** Step 9: the request, the failures, the prices, the claim. */
function checkCharge(state, own, entry) {
  const { claim, form, mechanism, parts, attested, levels } = entry;
  const tail = entry.priced && number(entry.priced.tail_delta);
  const room = { basic: true, either: true, zcdp: own.filter.kind === "zcdp" && number(own.filter.delta_sum) > 0n };
  requireThat(!tail || room[own.filter.kind], "priced from a profile in a scope whose filter has no room for it");
  const { kind, parameters } = mechanism;
  const asked = { attested, claim, form, mechanism: { kind, parameters }, parts, priced: entry.priced, scope: own.name };
  requireThat(hex(sha256(dump(asked))) === entry.request, "request: not the digest of what is reserved");
  const causes = sum((entry.failures ?? []).filter((one) => one.kind === "privacy").map((one) => number(one.delta)));
  requireThat(causes === number(claim.delta ?? "0"), "failures: do not add up to the delta of the claim");
  if ([...leaves(parts)].some((leaf) => leaf.kind === "sparse_vector")) state.skip("that the scales of a sparse vector keep its claim");
  for (const { scope: name, amounts } of levels) {
    const scope = state.scope(name);
    const takesTail = { basic: true, either: true, zcdp: scope.filter.kind === "zcdp" && number(scope.filter.delta_sum) > 0n };
    const isTail = tail && takesTail[scope.filter.kind];
    const asks = isTail ? { delta: tail } : priced(parts, own.relation, orders(scope.filter));
    const open = requirePrice(scope.filter, amounts, asks, name);
    if (open.length) notRecomputed(state, scope, open);
  }
  checkClaim(state, claim, priced(parts, own.relation), parts);
}

function notRecomputed(state, scope, names) {
  scope.skipped += 1;
  state.skip(`scope ${scope.name}: price not recomputed (${names.join(", ")})`);
}

/** What a claim says in a currency, of those whose sums alone support it. */
const CLAIMED = {
  pure_dp: (claim) => ["pure", number(claim.epsilon)],
  zcdp: (claim) => ["rho", number(claim.rho)],
  gdp: (claim) => ["mu_squared", number(claim.mu) ** 2n / ONE],
};

function checkClaim(state, claim, price, parts) {
  if (same(claim, parts)) return;
  const isKnown = (name) => typeof price[name] === "bigint";
  const [name, claimed] = CLAIMED[claim.kind]?.(claim) ?? [];
  if (name && isKnown(name) && isKnown("delta")) {
    const covers = claimed >= price[name] && number(claim.delta ?? "0") >= price.delta;
    requireThat(covers, "the claim does not follow from the parts");
  } else if (claim.kind === "approx_dp" && isKnown("pure") && isKnown("delta")) {
    const covers = number(claim.epsilon) >= price.pure && number(claim.delta) >= price.delta;
    if (!covers) state.skip("that the claim follows from the parts");
  } else state.skip("that the claim follows from the parts");
}

function start(state, entry) {
  const charge = state.charge(entry);
  requireThat(charge.redeem === undefined, "the charge is started already");
  const waits = charge.path.some((name) => state.scope(name).exclusive > (charge.exclusive ? 1 : 0));
  requireThat(!waits, "an exclusive interaction is open in the scope");
  charge.redeem = entry.redeem;
}

function grant(state, entry) {
  const charge = state.charge(entry);
  const { replaces, redeem, upto } = entry;
  requireThat(charge.form === "training", "only training is granted steps");
  requireThat(charge.redeem === (replaces ?? redeem), "not by the redeem in force");
  requireThat(replaces !== redeem, "a redeem cannot take over from itself");
  requireThat(!charge.replaced.has(redeem), "by a redeem that was replaced");
  const least = charge.granted + (replaces === undefined ? 1 : 0);
  requireThat(upto >= least && upto <= charge.steps, "steps are granted forwards, and at most those planned");
  if (replaces !== undefined) charge.replaced.add(replaces);
  Object.assign(charge, { granted: upto, redeem });
}

// ---- settling -------------------------------------------------------------------------------------------------------

const hasOutcome = (tree) => !same(planned(tree), tree);

/** Raises unless each outcome is one that its leaf can have, and each `done` rests on evidence. */
function checkOutcomes(charge, parts) {
  const isTraining = charge.form === "training";
  if (isTraining && stepsOf(parts) !== undefined) {
    if (parts.done === undefined) requireThat(!hasOutcome(parts), "outcomes of a training run without its steps");
    else {
      requireThat(parts.done >= charge.granted, "fewer steps done than were granted");
      requireThat(!children(parts).some(hasOutcome), "an outcome of a step of a training run");
    }
  } else requireEvidence(parts, undefined);
  requirePossible(parts);
}

function requireEvidence(tree, told) {
  if (tree.done !== undefined) {
    requireThat(told !== undefined, "steps done, which nothing tells of");
    requireThat(tree.done >= Math.min(told, stepsOf(tree)), "fewer steps done than an outcome tells of");
  }
  const tests = tree.kind === "sequence" ? tree.of.filter((part) => part.kind === "sparse_vector" && part.outcome) : [];
  const below = tests.length
    ? tests.reduce((all, { outcome }) => all + outcome.open_epoch + outcome.closed_epochs.reduce((x, y) => x + y, 0), 0)
    : undefined;
  children(tree).forEach((part) => requireEvidence(part, below));
}

function requirePossible(tree) {
  const { kind, outcome, done, reached, of } = tree;
  if (kind === "ex_post" && outcome) {
    requireThat(outcome.kind === "ex_post_outcome" && number(outcome.epsilon) <= number(tree.epsilon), "a loss above its cap");
  }
  if (kind === "sparse_vector" && outcome) {
    requireThat(outcome.kind === "sparse_vector_outcome", "another kind of outcome");
    const { closed_epochs: closed, open_epoch: open, halted, ratio } = outcome;
    requireThat(ratio === undefined || tree.falling, "a ratio of noise that does not fall");
    const halts = closed.length === tree.cutoff;
    const possible = closed.length <= tree.cutoff && closed.every((count) => count >= 1) && halted === halts && !(halts && open);
    requireThat(possible, "an outcome that no run of a sparse vector has");
  }
  if (kind === "chain" && reached) requireThat(isLevel(of, reached), "a level that its chain does not have");
  const waiting = done === undefined ? [] : kind === "sequence" ? of.slice(done) : done === 0 ? [of] : [];
  requireThat(!waiting.some(hasOutcome), "an outcome of a part that was never started");
  children(tree).forEach(requirePossible);
}

/** Whether `reached` is a level of a chain whose finest is `of`: never with less noise. */
function isLevel(of, reached) {
  if (reached.kind === "pure_dp") return number(reached.epsilon) === 0n;
  if (reached.kind !== of.kind || reached.sensitivity !== of.sensitivity) return false;
  const size = (leaf) => ({ laplace: leaf.epsilon, gaussian: leaf.noise_multiplier, discrete_laplace: leaf.scale })[leaf.kind];
  const [mine, finest] = [number(size(reached)), number(size(of))];
  return of.kind === "laplace" ? mine <= finest : mine >= finest;
}

function commit(state, entry) {
  const charge = state.charge(entry);
  const { parts, levels, rule } = entry;
  requireThat(charge.redeem === entry.redeem, "not by the redeem in force");
  requireThat(same(planned(parts), charge.parts), "the parts are not those that were reserved");
  checkOutcomes(charge, parts);
  if (charge.attested && !same(parts, charge.parts)) {
    const granted = charge.granted > 0 && same(parts, { ...charge.parts, done: charge.granted });
    requireThat(granted, "a run elsewhere says what came of it");
  }
  requireThat(!("digest" in entry) || state.scope(charge.scope).keep === "digest", "a digest in a scope that keeps none");
  requireThat(same(levels.map((level) => level.scope), charge.path), "the levels are not those that were reserved");
  const nothingBack = same(levels, charge.levels);
  const ranNothing = stepsOf(parts) !== undefined && parts.done === 0;
  const isCap = entry.outside_guarantee || !hasOutcome(parts) || (charge.priced && !ranNothing);
  requireThat(!isCap || nothingBack, "what comes back, where all of it stands");
  const wanted = nothingBack ? "cap" : parts.done === undefined ? "ex_post" : "steps";
  requireThat(rule === wanted, `settled by the rule ${rule}, which gives other numbers`);
  levels.forEach((level, place) => settle(state, charge, parts, charge.levels[place].amounts, level));
  for (const { scope: name, amounts } of charge.levels) giveBack(state, state.scope(name), charge, amounts);
  for (const { scope: name, amounts } of levels) {
    const scope = state.scope(name);
    scope.sums = changed(scope.sums, amounts);
  }
  state.open.delete(entry.charge);
}

function settle(state, charge, parts, before, { scope: name, amounts: after }) {
  const scope = state.scope(name);
  requireThat(same(Object.keys(before).sort(), Object.keys(after).sort()), `scope ${name}: settled in other coordinates`);
  const falls = charge.priced ? {} : floors(scope.filter, before, priced(parts, scope.relation, orders(scope.filter)));
  const unknown = [];
  for (const coordinate of Object.keys(after)) {
    const [reserved, settled] = [number(before[coordinate]), number(after[coordinate])];
    requireThat(settled <= reserved, `scope ${name}: ${coordinate} settled above what was reserved`);
    if (settled === reserved || charge.priced) continue;
    requireThat(coordinate in falls, `scope ${name}: ${coordinate} never falls`);
    if (falls[coordinate] === undefined) unknown.push(coordinate);
    else requireThat(settled >= falls[coordinate], `scope ${name}: ${coordinate} refunded beyond the rule`);
  }
  const isAll = Object.keys(after).every((coordinate) => number(after[coordinate]) === 0n || after[coordinate] === before[coordinate]);
  requireThat(!charge.priced || isAll, `scope ${name}: refunded beyond the rule`);
  if (unknown.length) notRecomputed(state, scope, unknown);
}

function giveBack(state, scope, charge, amounts) {
  if (!state.isTrusted) scope.counted ??= scope.sums;
  scope.sums = changed(scope.sums, amounts, -1);
  scope.held = changed(scope.held, amounts, -1);
  scope.interactions -= charge.form !== "release";
  scope.exclusive -= charge.exclusive;
}

function abort(state, entry) {
  const charge = state.charge(entry);
  requireThat(charge.redeem === undefined, "a started charge is never given back");
  for (const { scope: name, amounts } of charge.levels) giveBack(state, state.scope(name), charge, amounts);
  state.open.delete(entry.charge);
}

function refuse(state, entry) {
  const own = state.charged(entry.path);
  requireThat(!state.keys.has(JSON.stringify([own.name, entry.key])), "the key was used before in its scope");
  const refusal = JSON.stringify([own.name, entry.request]);
  requireThat(!state.refusals.has(refusal), "the same refusal was recorded before");
  state.refusals.add(refusal);
  requireThat(own.path.includes(entry.level), "the level that refused is not one of the path");
  const scope = state.scope(entry.level);
  requireRefusal(scope.filter, scope.sums, scope.held, entry);
}

// ---- notes ----------------------------------------------------------------------------------------------------------

const SLACK = 1 + 2e-9;
const MOST_DOUBLED = 4096; // runs: a larger e-value is never told
const OF_POINTS = ["pure_dp", "approx_dp", "privacy_curve"]; // claims that say what they allow at each delta
const double = (size) => Number(numberText(size));

function checkRelation(state, { path = [], relation }) {
  for (const { scope: name } of path) {
    requireThat(state.scope(name).relation === relation, `an audit under another relation than that of scope ${name}`);
  }
}

function intend(state, entry) {
  checkRelation(state, entry);
  state.intended.set(state.size, entry);
}

/** What a claim allows at a delta, as a number of 10^-60; undefined where section 8 gives no decimal. */
function allowed(claim, delta) {
  switch (claim.kind) {
    case "pure_dp":
      return number(claim.epsilon);
    case "bounded_range":
      return number(claim.eta);
    case "approx_dp":
      return delta >= number(claim.delta) ? number(claim.epsilon) : Infinity;
    case "privacy_curve": {
      const place = claim.deltas.findIndex((one) => number(one) <= delta);
      return place < 0 ? Infinity : number(claim.epsilons[place]);
    }
    default:
      return undefined;
  }
}

function audit(state, entry) {
  const { path = [], claim, confidence, method, verdict, refuted, together, blind } = entry;
  checkRelation(state, entry);
  const names = path.map((one) => one.scope);
  if ("intended" in entry) checkIntention(state, entry, names);
  if ("charge" in entry) {
    const scope = state.scopeOf.get(entry.charge);
    requireThat(scope, "about a charge that was never reserved");
    requireThat(names.every((name) => state.scope(scope).path.includes(name)), "about scopes that the charge is not charged to");
  }
  const [lower, delta] = [number(entry.epsilon_lower), number(entry.delta)];
  if (blind !== undefined) {
    const isNothing = verdict === "not_refuted" && lower === 0n && !["refuted", "together", "e_value", "power"].some((name) => name in entry);
    requireThat(isNothing, "an audit that was blind bounds nothing");
  }
  const passes = (bound, most) => bound > most || (method === "wealth" && bound === most);
  const points = [[delta, lower]];
  if (refuted) {
    requireThat(passes(number(refuted.epsilon_lower), number(refuted.epsilon)), "refuted: no bound above the epsilon that fell");
    const isOfPoints = OF_POINTS.includes(claim.kind);
    requireThat(!isOfPoints || number(refuted.epsilon) >= allowed(claim, number(refuted.delta)), "refuted: less than the claim allows at that delta");
    points.push([number(refuted.delta), number(refuted.epsilon_lower)]);
  }
  for (const [at, bound] of points) {
    requireThat(at < ONE, "delta: expected a number below 1");
    const counted = method === "threshold" || method === "wealth";
    requireThat(!counted || double(bound) <= mostShown(entry, at), "epsilon_lower: above what the runs can show");
  }
  const most = allowed(claim, delta);
  if (most === undefined) state.skip(`what a claim of ${claim.kind} allows`);
  else {
    const contradicts = passes(lower, most);
    const lacksValue = !("e_value" in entry) && method !== "replay";
    requireThat(!together || !(contradicts || refuted || lacksValue), "together: expected an e-value and no single point");
    const isViolation = contradicts || refuted !== undefined || together === true;
    requireThat((verdict === "violation") === isViolation, "verdict: not that of its numbers");
  }
  const runs = entry.trials_left + entry.trials_right;
  const largest = ONE << BigInt(Math.min(runs, MOST_DOUBLED));
  if ("power" in entry) requireThat(double(largest) * double(ONE - number(confidence)) * SLACK >= 1, "power: of so few runs that they refute nothing");
  if ("e_value" in entry) requireThat(number(entry.e_value) <= largest, "e_value: more than the runs can have");
  else requireThat(verdict !== "violation" || method === "replay" || method === "threshold" || !runs, "e_value: absent of a violation");
  if ("e_value" in entry && verdict === "violation" && method !== "replay") {
    const bets = double(number(entry.e_value)) * double(ONE - number(confidence)) * SLACK;
    requireThat(bets >= 1, "e_value: below 1 / (1 - confidence)");
  }
}

function mostShown({ trials_left: left, trials_right: right, confidence }, delta) {
  const runs = Math.max(left, right);
  if (!runs) return 0;
  const rarest = -Math.expm1(Math.log(double(ONE - number(confidence))) / runs);
  return Math.max(0, (Math.log1p(-double(delta)) - Math.log(rarest)) * SLACK);
}

function checkIntention(state, entry, names) {
  const said = state.intended.get(entry.intended);
  requireThat(said, `entry ${entry.intended} is no audit that is intended and not finished yet`);
  const runs = Math.max(entry.trials_left, entry.trials_right);
  const agrees =
    said.mechanism.kind === entry.mechanism.kind &&
    same(said.mechanism.parameters, entry.mechanism.parameters) &&
    same(said.claim ?? entry.claim, entry.claim) &&
    ["relation", "confidence", "seed", "schedule"].every((name) => said[name] === entry[name]) &&
    ["code", "pair"].every((name) => !(name in said) || said[name] === entry[name]) &&
    same((said.path ?? []).map((one) => one.scope), names) &&
    runs <= said.trials;
  requireThat(agrees, `not the audit that entry ${entry.intended} intended`);
  state.intended.delete(entry.intended);
}

const STEPS = {
  ledger_opened: openLedger,
  scope_opened: openScope,
  reserved: reserve,
  started: start,
  progress: grant,
  committed: commit,
  aborted: abort,
  lost: (state, entry) => void state.charge(entry),
  refused: refuse,
  snapshot: (state, entry) => requireThat(entry.state === state.digest(), "the snapshot is not the digest of the state"),
  closed: close,
  intended: intend,
  rollback_accepted: acceptRollback,
  key_revoked: revoke,
  audited: audit,
};
