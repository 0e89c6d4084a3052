// What an entry is made of (SPEC.md sections 5 and 6): a table of members for each kind, and the forms they have.
// A form is a function (value, found): it notes in `found` the first breach, or that a word is newer than this verifier.

import { Invalid, Newer } from "./bytes.mjs";
import { isDigest, isId, isLedgerId, isTime, isToken, isWord, number, ONE, saysSomething } from "./profile.mjs";

class Found {
  constructor() {
    this.breach = undefined;
    this.newer = undefined;
    this.path = [];
  }

  at(step, check) {
    this.path.push(step);
    check();
    this.path.pop();
  }

  breaks(expected) {
    this.breach ??= `${this.path.join(".") || "entry"}: expected ${expected}`;
  }

  isNewer(word) {
    this.newer ??= `${this.path.join(".")} is ${word}`;
  }
}

// ---- forms ----------------------------------------------------------------------------------------------------------

const form = (holds, expected) => (value, found) => void (holds(value) || found.breaks(expected));
const isText = (value) => typeof value === "string";
const id = form(isId, "an id");
const digest = form(isDigest, "a SHA-256 digest");
const token = form(isToken, "32 hexadecimal digits");
const text = form(isText, "text");
const words = form((value) => isText(value) && saysSomething(value), "words");
const flag = form((value) => typeof value === "boolean", "true or false");
const onlyTrue = form((value) => value === true, "true");
const count = (least = 0, most = 2 ** 53 - 1) =>
  form((value) => Number.isInteger(value) && value >= least && value <= most, `a whole number from ${least} to ${most}`);
const anObject = (value) => typeof value === "object" && !Array.isArray(value);
const free = form(anObject, "an object");

const decimal = (holds = () => true, expected = "a number", options = {}) =>
  form((value) => {
    const size = number(value, options);
    return size !== undefined && holds(size);
  }, expected);
const exact = decimal();
const positive = decimal((size) => size > 0n, "a number above 0");
const probability = decimal((size) => size < ONE, "a number in [0, 1)");
const open = decimal((size) => size > 0n && size < ONE, "a number in (0, 1)");
const rate = decimal((size) => size > 0n && size <= ONE, "a number in (0, 1]");
const account = decimal(undefined, "a number or inf", { infinite: true });

const word = (...known) => (value, found) => {
  if (!isWord(value)) found.breaks("a word");
  else if (!known.includes(value)) found.isNewer(value);
};

const list = (of, least = 0) => (value, found) => {
  if (!Array.isArray(value) || value.length < least) found.breaks(`a list of at least ${least}`);
  else value.forEach((item, place) => found.at(place, () => of(item, found)));
};

const mapping = (of) => (value, found) => {
  if (!anObject(value)) found.breaks("an object");
  else Object.keys(value).forEach((name) => found.at(name, () => of(value[name], found)));
};

/** An object of exactly these members; those whose name ends in `?` may be absent. `rule`: what holds between them. */
function object(members, rule) {
  const forms = new Map(Object.entries(members).map(([name, of]) => [name.replace("?", ""), [of, name.endsWith("?")]]));
  return (value, found) => {
    if (!anObject(value)) return found.breaks("an object");
    for (const name of Object.keys(value)) if (!forms.has(name)) found.breaks(`no member ${name}`);
    for (const [name, [of, optional]] of forms) {
      if (name in value) found.at(name, () => of(value[name], found));
      else if (!optional) found.breaks(`the member ${name}`);
    }
    if (rule && !found.breach && !found.newer && !rule(value)) found.breaks("members that belong together");
  };
}

/** Objects told apart by `kind`: a table of the members of each. */
const told = (table) => {
  const forms = Object.fromEntries(
    Object.entries(table()).map(([kind, [members, rule]]) => [kind, object({ kind: word(kind), ...members }, rule)]),
  );
  return (value, found) => {
    if (!anObject(value)) return found.breaks("an object with a kind");
    if (!isWord(value.kind)) return found.breaks("a kind");
    if (!Object.hasOwn(forms, value.kind)) return found.isNewer(value.kind);
    return forms[value.kind](value, found);
  };
};

/** A form that is made when it is first used: trees hold trees. */
const later = (make) => {
  let made;
  return (value, found) => (made ??= make())(value, found);
};

// ---- what members are made of (section 5) ----------------------------------------------------------------------------

const relation = word("add_remove", "replace_one", "zero_out", "label_flip");
const risesAboveOne = (orders) => {
  const sizes = orders.map((order) => number(order));
  return sizes.length > 0 && sizes.every((size, place) => size > (place ? sizes[place - 1] : ONE));
};
const grid = { orders: list(exact), epsilons: list(exact) };
const isGrid = ({ orders, epsilons }) => orders.length === epsilons.length && risesAboveOne(orders);

const CURVE_POINTS = 4096;
const isCurve = ({ epsilons, deltas, reached }) => {
  const [at, most, least] = [epsilons, deltas, reached].map((texts) => texts.map((one) => number(one)));
  if (at.length < 1 || at.length > CURVE_POINTS || at.some((size, place) => place > 0 && size <= at[place - 1])) return false;
  if (most.length !== at.length || most.some((size) => size > ONE)) return false;
  let ceiling = ONE; // a profile falls
  return least.length === 0 || (least.length === at.length && least.every((size, place) => {
    if (most[place] < ceiling) ceiling = most[place];
    return size <= ceiling;
  }));
};

const GUARANTEES = {
  pure_dp: [{ epsilon: exact }],
  approx_dp: [{ epsilon: exact, delta: probability }],
  zcdp: [{ rho: exact, delta: probability }],
  gdp: [{ mu: exact }],
  rdp: [grid, isGrid],
  bounded_range: [{ eta: exact }],
  privacy_curve: [{ epsilons: list(exact), deltas: list(exact), reached: list(exact) }, isCurve],
};
const guarantee = told(() => GUARANTEES);

const failure = told(() => ({
  privacy: [
    {
      delta: open,
      cause: word("approximation", "composition", "stability", "tail_conversion", "time_uniform_boundary", "numeric"),
    },
  ],
  accuracy: [{ beta: open, statement: text }],
}));

const outcome = told(() => ({
  sparse_vector_outcome: [{ closed_epochs: list(count()), open_epoch: count(), halted: flag, "ratio?": decimal((size) => size >= ONE, "a number from 1") }],
  ex_post_outcome: [{ epsilon: exact }],
}));

const boundary = told(() => ({
  linear: [{ tuning: positive, delta: open }],
  mixture: [{ tuning: positive, delta: open }],
}));

const trials = told(() => ({
  negative_binomial: [
    {
      eta: decimal((size) => size > -ONE && size <= 1000n * ONE, "a number above -1", { signed: true }),
      gamma: open,
      "most?": count(1, 1e12),
    },
  ],
  poisson: [{ mean: positive, "most?": count(1, 1e12) }],
}));

const many = count(1, 1e12);
const tree = later(() => TREE);
const filter = later(() => FILTER);
const fits = ({ population, batch }) => batch <= population;

const TREE = told(() => ({
  ...GUARANTEES,
  laplace: [{ epsilon: exact }],
  gaussian: [{ noise_multiplier: positive }],
  mixture_of_gaussians: [{ sigma: positive, sensitivities: list(exact), weights: list(exact) }],
  truncated_sampled_gaussian: [{ noise_multiplier: positive, rate, population: many, batch: many }],
  gaussian_with_replacement: [{ noise_multiplier: positive, population: many, draws: many }],
  discrete_laplace: [{ scale: positive, sensitivity: positive }],
  discrete_gaussian: [{ sigma: positive, sensitivity: positive }],
  randomized_response: [{ epsilon: exact, k: count(2, 1e12) }],
  exponential: [{ epsilon: exact }],
  permute_and_flip: [{ epsilon: exact }],
  pmf: [{ left: list(exact), right: list(exact) }],
  offset_zcdp: [{ rho: positive, xi: positive }],
  sparse_vector: [
    {
      mode: word("single_threshold", "target_charging", "basic", "dr14", "zcdp", "kov"),
      cutoff: count(1, 2 ** 31 - 1),
      epsilon: positive,
      delta: probability,
      threshold_scale: exact,
      query_scale: positive,
      "calls?": many,
      "stable_at?": count(1),
      "monotone?": onlyTrue,
      "falling?": onlyTrue,
      "outcome?": outcome,
    },
    ({ falling, mode, cutoff, ...rest }) => !falling || (mode === "single_threshold" && cutoff === 1 && !("stable_at" in rest)),
  ],
  ex_post: [
    { epsilon: exact, sense: word("pure", "integrated", "probabilistic"), delta: probability, "outcome?": outcome },
    ({ sense, delta }) => sense !== "pure" || number(delta) === 0n,
  ],
  sequence: [{ of: list(tree, 1), "done?": count() }, ({ of, done }) => done === undefined || done <= of.length],
  repeated: [{ of: tree, times: many, "done?": count() }, ({ times, done }) => done === undefined || done <= times],
  poisson_sampled: [{ of: tree, rate }],
  sampled_without_replacement: [{ of: tree, population: many, batch: many }, fits],
  shuffled: [{ of: tree, users: count(1, 1e9) }],
  random_allocation: [{ of: tree, steps: count(1, 1e6), "k?": count(1, 1e6) }],
  group: [{ of: tree, k: count(1, 1e6), relation }],
  parallel: [{ of: list(tree, 1), "by?": word("unit") }],
  chain: [{ of: tree, "reached?": tree, "boundary?": boundary }],
  post_processed: [{ of: tree }],
  selected: [{ of: tree, repeats: trials }],
  converted: [{ of: tree, to: guarantee, relation }],
  filtered: [{ filter, of: list(tree, 1) }],
}));

const edge = object({ order_minus_one: positive, delta_boundary: open });
const isMixture = ({ boundaries, delta_sum }) => {
  const orders = new Set(boundaries.map((one) => one.order_minus_one));
  const failing = boundaries.reduce((sum, one) => sum + number(one.delta_boundary), number(delta_sum));
  return boundaries.length >= 1 && boundaries.length <= 16 && orders.size === boundaries.length && failing < ONE;
};

const FILTER = told(() => ({
  pure: [{ epsilon: positive }],
  basic: [{ epsilon: positive, delta_sum: probability }],
  zcdp: [{ rho: positive, delta_sum: probability }],
  rdp: [grid, (value) => isGrid(value) && value.orders.length <= 256 && value.epsilons.every((one) => number(one) > 0n)],
  gdp: [{ mu: decimal((size) => size > 0n && size < 10n ** 9n * ONE, "a number above 0, below 10^9") }],
  either: [{ epsilon: positive, delta_sum: probability, boundaries: list(edge) }, isMixture],
  allowance: [
    {
      law: tree,
      steps: many,
      epsilon_law: exact,
      delta_law: probability,
      epsilon_rest: exact,
      delta_rest: probability,
    },
  ],
}));

const step = object({ scope: id, index: count() });
const path = list(step, 1);
const amounts = (value, found) => {
  mapping(exact)(value, found);
  if (anObject(value) && !Object.keys(value).every(isWord)) found.breaks("names of coordinates");
};
const level = object({ scope: id, amounts });
const mechanism = object({ kind: id, library: text, parameters: free });
const attestation = object({
  by: words,
  reason: words,
  "evidence?": words,
  "relation?": relation,
  "of?": word("row", "unit"),
});

const ITEMS =
  "access_control accuracy collection_and_minimisation collusion contribution_bounding controller_and_contact " +
  "data_categories data_growth decision_owner dpia_reference epoch_policy errors first_published floating_point " +
  "incident_contact intended_use invariants justification kind_of_product limits model_files next_review " +
  "non_dp_releases not_intended_for output_recipients parameters_chosen_without_data people population_size " +
  "post_processing processing_record_reference product_description product_name query_model region registry_authors " +
  "release_frequency retention_keys retention_ledger retention_salts reviewer sampler security_at_rest " +
  "security_in_use sensitivity synthetic_data timing trust_model unit_justification who_may_query";
const known = new Set(ITEMS.split(" "));
const item = (value, found) => {
  if (!isWord(value) || value === "own_") found.breaks("an item");
  else if (!known.has(value) && !value.startsWith("own_")) found.isNewer(value);
};

const FORMAT = "dpledger.ledger.v1";
const format = (value, found) => {
  if (!isText(value) || !/^[a-z][a-z0-9_]{0,63}(\.[a-z0-9_]+)*$/.test(value)) found.breaks(FORMAT);
  else if (value !== FORMAT) found.isNewer(value);
};

// ---- kinds (section 6) ----------------------------------------------------------------------------------------------

const KINDS = {
  ledger_opened: {
    format,
    public_key: text,
    recovery_key: text,
    "owner_key?": text,
    witness: word("off", "after", "before"),
    "witness_policy?": text,
    "continues?": object({ ledger: form(isLedgerId, "a ledger id"), root: digest, size: count() }),
  },
  scope_opened: {
    path,
    unit: object({ name: id, max_contributions: count(1) }),
    relation,
    budget: guarantee,
    filter,
    keep: word("value", "digest", "none"),
    "parents?": list(id, 1),
    "dataset?": text,
    "odometer?": object(
      { boundary: word("linear", "mixture"), tuning: positive, delta_boundary: open, delta_sum: probability },
      (value) => number(value.delta_boundary) + number(value.delta_sum) < ONE,
    ),
    "instead?": filter,
    "approval?": text,
  },
  reserved: {
    path,
    key: id,
    charge: token,
    request: digest,
    mechanism,
    claim: guarantee,
    parts: tree,
    levels: list(level, 1),
    form: word("release", "interaction", "training"),
    "failures?": list(failure, 1),
    "steps?": count(),
    "redeem?": digest,
    "plan?": token,
    "priced?": object({ tail_delta: open }),
    "attested?": attestation,
    "fixed?": list(object({ scope: id, filter }), 1),
  },
  started: { path, charge: token, redeem: digest },
  progress: { path, charge: token, redeem: digest, upto: count(), "replaces?": digest },
  committed: {
    path,
    charge: token,
    redeem: digest,
    parts: tree,
    levels: list(level, 1),
    rule: word("cap", "ex_post", "steps"),
    "warnings?": list(text, 1),
    outside_guarantee: flag,
    "digest?": digest,
  },
  aborted: { path, charge: token },
  lost: { path, charge: token, note: words },
  refused: {
    path,
    key: id,
    request: digest,
    mechanism,
    claim: guarantee,
    level: id,
    asked: mapping(account),
    spent: mapping(account),
    left: mapping(account),
    held: mapping(account),
    "attested?": attestation,
  },
  declared: { "path?": path, item, text: words, by: words, "envelope?": text },
  intended: {
    "path?": path,
    mechanism,
    "claim?": guarantee,
    relation,
    trials: count(),
    confidence: open,
    "seed?": count(),
    "schedule?": id,
    "code?": digest,
    "pair?": digest,
  },
  audited: {
    "path?": path,
    "charge?": token,
    mechanism,
    claim: guarantee,
    relation,
    verdict: word("violation", "not_refuted"),
    epsilon_lower: exact,
    delta: exact,
    confidence: open,
    trials_left: count(),
    trials_right: count(),
    event: words,
    method: id,
    "refuted?": object({ delta: exact, epsilon: exact, epsilon_lower: exact }),
    "power?": object({ epsilon: exact, probability: open }),
    "seed?": count(),
    "e_value?": positive,
    "together?": onlyTrue,
    "blind?": words,
    "apart?": words,
    "intended?": count(),
    "code?": digest,
    "pair?": digest,
    "schedule?": id,
    "arms?": count(),
  },
  reported: { digest, schema: id },
  snapshot: { state: digest },
  heartbeat: {},
  closed: { "path?": path, reason: words, "approval?": text },
  key_rotated: { public_key: text },
  key_delegated: { "public_key?": text, "last?": count() },
  owner_rotated: { owner_key: text, "approval?": text },
  key_revoked: { last_trusted: count(), reason: words },
  rollback_accepted: { size: count(), leaf: digest, by: words, reason: words },
};
const STAMP = { ledger: form(isLedgerId, "a ledger id"), index: count(), previous: digest, version: count(1, 1) };
const TIMELESS = ["started", "progress", "committed"];

const FORMS = Object.fromEntries(
  Object.entries(KINDS).map(([kind, members]) => {
    const time = TIMELESS.includes(kind) ? {} : { time: form(isTime, "a time") };
    return [kind, object({ ...STAMP, kind: word(kind), ...time, ...members })];
  }),
);

/** Raises Invalid or Newer unless `payload` is an entry of this version. */
export function requireEntry(payload) {
  const { kind, version } = payload;
  if (!isWord(kind)) throw new Invalid("kind: expected a word");
  if (!Number.isInteger(version) || version < 1) throw new Invalid("version: expected a whole number from 1");
  if (!Object.hasOwn(FORMS, kind) || version > 1) throw new Newer(`an entry of the kind ${kind}, version ${version}`);
  const found = new Found();
  FORMS[kind](payload, found);
  if (found.newer) throw new Newer(found.newer);
  if (found.breach) throw new Invalid(found.breach);
}

