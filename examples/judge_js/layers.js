// Layers of TensorFlow.js, judged by refnp from files; docs/case_format.md describes them.
//
//     npm ci
//     refnp cases export cases --format json --dtype float32
//     node layers.js cases cases/answers
//     refnp judge cases
//
// Every case of the folder is computed in float32 on the CPU, output and gradients, and answered. Where TensorFlow.js,
// or this file, has no such layer or option, the answer says so.

import fs from "node:fs";
import path from "node:path";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu";
import { layers } from "@tensorflow/tfjs-layers";

class NotOffered extends Error {}

function refuse(what) {
  throw new NotOffered(`layers.js has no ${what}`);
}

// A function for each layer: of the arguments by name and of the options, both called as refnp calls them.

const LAYERS = {
  sinh: ({ x }) => tf.sinh(x),
  cosh: ({ x }) => tf.cosh(x),
  arctan: ({ x }) => tf.atan(x),
  erf: ({ x }) => tf.erf(x),
  relu: ({ x }) => tf.relu(x),
  leaky_relu: ({ x }, { slope }) => tf.leakyRelu(x, slope),
  elu: ({ x }, { alpha }) => (alpha === 1 ? tf.elu(x) : refuse("elu with another alpha")),
  sigmoid: ({ x }) => tf.sigmoid(x),
  silu: activation("swish"),
  softplus: ({ x }, { beta, threshold }) =>
    beta === 1 && threshold === undefined ? tf.softplus(x) : refuse("softplus with beta or a threshold"),
  gelu: ({ x }, { approximate }) => activation(approximate === "tanh" ? "gelu_new" : "gelu")({ x }),
  softmax: ({ x }, { axis }) => alongLast(x, axis, tf.softmax),
  log_softmax: ({ x }, { axis }) => alongLast(x, axis, tf.logSoftmax),
  logsumexp: ({ x }, { axis }) => tf.logSumExp(x, axis),
  var: ({ x }, { ddof }) => (ddof === 0 ? tf.moments(x, -1).variance : refuse("variance of a sample")),
  layer_norm: layerNorm,
  "batch_norm of statistics": ({ x, gain, shift, mean, variance }, { eps }) =>
    channelsLast((y) => tf.batchNorm(y, mean, variance, shift, gain, eps), x),
  matmul: ({ x, y }) => tf.matMul(x, y),
  linear: ({ x, weight, bias }) => {
    const y = tf.matMul(tf.reshape(x, [-1, x.shape.at(-1)]), weight);
    const shaped = tf.reshape(y, [...x.shape.slice(0, -1), weight.shape[1]]);
    return bias === undefined ? shaped : tf.add(shaped, bias);
  },
  embedding: ({ table }, { tokens, scaled }) => (scaled ? refuse("scaled embedding") : tf.gather(table, tokens)),
  convolution,
  average_pool: (args, options) => pool("avg", args, options),
  max_pool: (args, options) => pool("max", args, options),
  upsample,
  attention,
  softcap_attention: attention,
  causal_attention: (args) => attention(args, { mask: band(args, Infinity, 0) }),
  window_attention: (args, { before, after }) => attention(args, { mask: band(args, before, after) }),
  mse: ({ prediction, target }, { reduction }) =>
    tf.losses.meanSquaredError(target, prediction, undefined, reduced(reduction)),
  huber: ({ prediction, target }, { delta, reduction }) =>
    tf.losses.huberLoss(target, prediction, undefined, delta, reduced(reduction)),
  binary_cross_entropy: ({ logits, targets }, { positive_weight, reduction }) =>
    positive_weight === 1
      ? tf.losses.sigmoidCrossEntropy(targets, logits, undefined, 0, reduced(reduction))
      : refuse("weight of positive targets"),
  "cross_entropy of probabilities": ({ logits, targets }, { label_smoothing, class_weights, reduction }) =>
    class_weights === undefined
      ? tf.losses.softmaxCrossEntropy(targets, logits, undefined, label_smoothing, reduced(reduction))
      : refuse("class weights"),
};

function activation(name) {
  return ({ x }) => layers.activation({ activation: name }).apply(x);
}

function alongLast(x, axis, ofRows) {
  const order = [...x.shape.keys()];
  const own = axis < 0 ? axis + x.rank : axis;
  [order[own], order[x.rank - 1]] = [order[x.rank - 1], order[own]]; // its own inverse
  return own === x.rank - 1 ? ofRows(x) : tf.transpose(ofRows(tf.transpose(x, order)), order);
}

// TensorFlow.js has the channels last, refnp (B, C, lengths...).
function channelsLast(ofImages, x) {
  const lengths = [...x.shape.keys()].slice(2);
  const y = ofImages(tf.transpose(x, [0, ...lengths, 1]));
  return tf.transpose(y, [0, y.rank - 1, ...lengths.map((axis) => axis - 1)]);
}

function layerNorm({ x, gain, shift }, { axis, eps }) {
  if (axis !== -1) refuse("LayerNorm with weights of another axis");
  const { mean, variance } = tf.moments(x, -1, true); // as tf.layers.layerNormalization has it
  const [m, v, b, g] = [mean, variance, shift, gain].map((a) => tf.broadcastTo(a, x.shape));
  return tf.batchNorm(x, m, v, b, g, eps);
}

function convolution({ x, weight, bias }, { stride, dilation, groups, padding, padding_mode }) {
  if (x.rank !== 4) refuse("convolution but of batches of images");
  if (groups !== 1 || padding_mode !== "zeros" || typeof padding === "string") refuse("groups or paddings of its kind");
  if ([dilation].flat().some((step) => step !== 1)) refuse("dilation with a gradient");
  const around = pair(padding).map((n) => [n].flat().length === 1 ? [n, n].flat() : n);
  const padded = (images) => tf.pad(images, [[0, 0], ...around, [0, 0]]);
  const kernel = tf.transpose(weight, [2, 3, 1, 0]);
  const y = channelsLast((images) => tf.conv2d(padded(images), kernel, pair(stride), "valid"), x);
  return bias === undefined ? y : tf.add(y, tf.reshape(bias, [-1, 1, 1]));
}

function pool(kind, { x }, { size, stride = size, padding, dilation = 1, ceil_mode }) {
  if (x.rank !== 4) refuse("pooling but of batches of images");
  if (ceil_mode || [dilation].flat().some((step) => step !== 1)) refuse("ceil mode or dilation");
  if ([padding].flat().some((n) => n !== 0)) refuse("padding of windows");
  return channelsLast((images) => tf.pool(images, pair(size), kind, "valid", 1, pair(stride)), x);
}

function upsample({ x }, { factor, size, mode, align_corners }) {
  if (x.rank !== 4) refuse("upsampling but of batches of images");
  if (mode === "nearest-exact") refuse(mode);
  const lengths = size === undefined ? x.shape.slice(2).map((n, i) => Math.floor(n * pair(factor)[i])) : pair(size);
  const resize = mode === "nearest" ? tf.image.resizeNearestNeighbor : tf.image.resizeBilinear;
  return channelsLast((images) => resize(images, lengths, align_corners, mode !== "nearest" && !align_corners), x);
}

function pair(value) {
  return Array.isArray(value) ? value : [value, value];
}

// Softmax over the keys that may be attended to; a query that may attend to nothing gives 0.
function attention({ query, key, value, bias }, { mask, similarity = "scaled_dot", softcap } = {}) {
  if (mask !== undefined) {
    const used = tf.expandDims(tf.any(mask, -2), -1); // what is hidden from all may be NaN
    [key, value] = [key, value].map((a) => tf.where(used, a, tf.zerosLike(a)));
  }
  let scores = tf.matMul(query, key, false, true);
  if (similarity === "scaled_dot") scores = tf.div(scores, Math.sqrt(query.shape.at(-1)));
  if (softcap !== undefined) scores = tf.mul(softcap, tf.tanh(tf.div(scores, softcap)));
  if (bias !== undefined) scores = tf.add(scores, bias);
  if (mask === undefined) return tf.matMul(tf.softmax(scores), value);
  const some = tf.any(mask, -1, true);
  const shown = tf.where(tf.logicalOr(mask, tf.logicalNot(some)), scores, -Infinity);
  return tf.matMul(tf.where(some, tf.softmax(shown), tf.zerosLike(shown)), value);
}

function band({ query, key }, before, after) {
  const [n, m] = [query.shape.at(-2), key.shape.at(-2)];
  const allowed = Array.from({ length: n * m }, (_, k) => [Math.floor(k / m), k % m]);
  return tf.tensor(allowed.map(([i, j]) => j - i <= after && i - j <= before), [n, m], "bool");
}

function reduced(reduction) {
  return { none: tf.Reduction.NONE, sum: tf.Reduction.SUM, mean: tf.Reduction.MEAN }[reduction];
}

// Files

const NOT_FINITE = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };
const DTYPES = { float32: "float32", float64: "float32", bool: "bool", int64: "int32" };

function stated(value) {
  return NOT_FINITE[value] ?? value;
}

function tensor({ dtype, shape, data }) {
  return tf.tensor(data.map(stated), shape, DTYPES[dtype]);
}

function asJson(array) {
  const data = Array.from(array.dataSync(), (value) => (Number.isFinite(value) ? value : String(value)));
  return { dtype: array.dtype, shape: array.shape, data };
}

function answer({ layer, dtype, arguments: names, options, quantities, arrays }) {
  if (dtype !== "float32") refuse(dtype);
  if (!Object.hasOwn(LAYERS, layer)) refuse("such layer");
  const given = Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, value?.array ? tensor(arrays[value.array]) : stated(value)]),
  );
  const inputs = names.map((name) => tensor(arrays[`input.${name}`]));
  const run = (...xs) => LAYERS[layer](Object.fromEntries(names.map((name, i) => [name, xs[i]])), given);
  const found = { output: asJson(run(...inputs)) };
  if (quantities.length === 1) return found;
  const gradients = tf.grads(run)(inputs, tensor(arrays.cotangent));
  names.forEach((name, i) => {
    if (quantities.includes(`gradient.${name}`)) found[`gradient.${name}`] = asJson(gradients[i]);
  });
  return found;
}

const [cases, answers] = process.argv.slice(2);
await tf.setBackend("cpu");
const manifest = JSON.parse(fs.readFileSync(path.join(cases, "manifest.json"), "utf8"));
if (manifest.version !== 1 || manifest.layout !== "json") throw new Error("version 1 with --format json is read");
fs.mkdirSync(answers, { recursive: true });
for (const { id } of manifest.cases) {
  let found;
  try {
    found = tf.tidy(() => answer(JSON.parse(fs.readFileSync(path.join(cases, `${id}.json`), "utf8"))));
  } catch (wrong) {
    if (!(wrong instanceof NotOffered)) {
      console.error(`${id}: ${wrong.message}`); // there is no answer, and refnp says so
      continue;
    }
    found = { skipped: wrong.message };
  }
  fs.writeFileSync(path.join(answers, `${id}.json`), JSON.stringify(found));
}
