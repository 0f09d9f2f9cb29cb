// The matrix products of one training step and nothing else, behind scripts/bench-tokens:
//
//   gemm_bound --layers N --width N --heads N --context N --vocabulary N --rows N
//     [--precision fp32|bf16]
//
// Prints `tokens_per_s N` for one rank that holds `rows` tokens of the batch: rows over the median
// time of a step's products, each in the fastest of its ways: dnnl_sgemm (fp32), oneDNN's matmul as
// the matrices lie, and matmul with its right side packed in its own order. Packing weights is not
// counted, they change once per step; packing activations is. Attention counts whole squares, not
// only the causal half. Equal products follow each other on the same memory, so that the caches are
// as warm as they get. Steps go on for some seconds, for copies on other CPUs to be at work
// meanwhile: CPUs may share their multipliers.
#include <dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;
using Seconds = std::chrono::duration<double>;

constexpr int least_repeats = 3;
constexpr Seconds trial_time{0.1};   // of one way to compute one product
constexpr Seconds measured_time{4};  // of whole steps
constexpr int least_steps = 5;

using Run = std::function<void()>;

enum class Side { weights, activations };

// C = A op(B): A is m x k, or its transpose when `a_by_columns`; B is k x n likewise.
struct Product {
  std::int64_t count = 1;  // of such products in one step
  std::int64_t batch = 1;  // of independent matrices in one product
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_by_columns = false;
  bool b_by_columns = false;
  Side right = Side::weights;
  bool sums_gradient = false;  // C is fp32 whatever A and B are
};

struct Model {
  std::int64_t layers, width, heads, context, vocabulary, rows;
};

// y = x W, dx = dy W^T and dW = x^T dy of a linear layer.
void add_linear(std::int64_t count, std::int64_t rows, std::int64_t in, std::int64_t out,
                std::vector<Product>& products) {
  products.push_back({count, 1, rows, out, in, false, false, Side::weights, false});
  products.push_back({count, 1, rows, in, out, false, true, Side::weights, false});
  products.push_back({count, 1, in, out, rows, true, false, Side::activations, true});
}

// Scores q k^T and s v, and backward ds = do v^T, dv = s^T do, dq = ds k, dk = ds^T q.
void add_attention(const Model& model, std::vector<Product>& products) {
  const std::int64_t t = model.context;
  const std::int64_t head = model.width / model.heads;
  const std::int64_t batch = model.rows / t * model.heads;
  const std::int64_t layers = model.layers;
  products.push_back({2 * layers, batch, t, t, head, false, true, Side::activations, false});
  products.push_back({2 * layers, batch, t, head, t, false, false, Side::activations, false});
  products.push_back({2 * layers, batch, t, head, t, true, false, Side::activations, false});
}

std::vector<Product> products_of(const Model& model) {
  std::vector<Product> products;
  const std::int64_t width = model.width;
  add_linear(model.layers, model.rows, width, 3 * width, products);
  add_linear(model.layers, model.rows, width, width, products);
  add_linear(model.layers, model.rows, width, 4 * width, products);
  add_linear(model.layers, model.rows, 4 * width, width, products);
  add_linear(1, model.rows, width, model.vocabulary, products);
  add_attention(model, products);
  return products;
}

Seconds time_of(const Run& run) {
  const auto begun = std::chrono::steady_clock::now();
  run();
  return std::chrono::steady_clock::now() - begun;
}

// The shortest of some runs, after one that is not counted.
Seconds shortest(const Run& run) {
  run();
  Seconds best{1e9};
  Seconds all{0};
  for (int repeat = 0; repeat < least_repeats || all < trial_time; ++repeat) {
    const Seconds one = time_of(run);
    best = std::min(best, one);
    all += one;
  }
  return best;
}

std::vector<float> random_values(std::int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = draw(random);
  return values;
}

Run by_sgemm(const Product& p) {
  return [p, a = random_values(p.batch * p.m * p.k), b = random_values(p.batch * p.k * p.n),
          c = random_values(p.batch * p.m * p.n)]() mutable {
    for (std::int64_t i = 0; i < p.batch; ++i) {
      dnnl_sgemm(p.a_by_columns ? 'T' : 'N', p.b_by_columns ? 'T' : 'N', p.m, p.n, p.k, 1.0f,
                 &a[static_cast<std::size_t>(i * p.m * p.k)], p.a_by_columns ? p.m : p.k,
                 &b[static_cast<std::size_t>(i * p.k * p.n)], p.b_by_columns ? p.k : p.n, 0.0f,
                 &c[static_cast<std::size_t>(i * p.m * p.n)], p.n);
    }
  };
}

dnnl::memory::desc lying_as(const Product& p, std::int64_t rows, std::int64_t columns, Type type,
                            bool by_columns) {
  if (p.batch == 1) return {{rows, columns}, type, by_columns ? Tag::ba : Tag::ab};
  return {{p.batch, rows, columns}, type, by_columns ? Tag::acb : Tag::abc};
}

// The right side in whatever order the product likes best.
dnnl::memory::desc packed_right(const Product& p, Type type) {
  if (p.batch == 1) return {{p.k, p.n}, type, Tag::any};
  return {{p.batch, p.k, p.n}, type, Tag::any};
}

dnnl::matmul::primitive_desc matmul_of(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                       const dnnl::memory::desc& c, const dnnl::engine& engine) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, a, b, c);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine);
#endif
}

Type type_of(const dnnl::memory::desc& as) {
#if DNNL_VERSION_MAJOR >= 3
  return as.get_data_type();
#else
  return as.data_type();
#endif
}

dnnl::memory filled(const dnnl::memory::desc& as, std::int64_t count, const dnnl::engine& engine,
                    dnnl::stream& stream) {
  auto values = random_values(count);
  const dnnl::memory::desc flat({count}, Type::f32, Tag::a);
  const dnnl::memory::desc same({count}, type_of(as), Tag::a);
  dnnl::memory from(flat, engine, values.data());
  dnnl::memory to(as, engine);
  dnnl::memory whole(same, engine, to.get_data_handle());
  dnnl::reorder(from, whole).execute(stream, from, whole);
  stream.wait();
  return to;
}

// With the right side as it lies, or packed.
Run by_matmul(const Product& p, Type type, bool packed) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto a_as = lying_as(p, p.m, p.k, type, p.a_by_columns);
  const auto b_as = lying_as(p, p.k, p.n, type, p.b_by_columns);
  const auto c_as = lying_as(p, p.m, p.n, p.sums_gradient ? Type::f32 : type, false);
  const auto how = matmul_of(a_as, packed ? packed_right(p, type) : b_as, c_as, engine);
  const dnnl::matmul matmul(how);
  const dnnl::memory a = filled(a_as, p.batch * p.m * p.k, engine, stream);
  const dnnl::memory lying = filled(b_as, p.batch * p.k * p.n, engine, stream);
  const dnnl::memory c(c_as, engine);
  const dnnl::memory b = packed ? dnnl::memory(how.weights_desc(), engine) : lying;
  const Run multiply = [=]() mutable {
    matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
  };
  if (!packed) return multiply;
  const Run pack = [=, order = dnnl::reorder(lying, b)]() mutable {
    auto from = lying;
    auto to = b;
    order.execute(stream, from, to);
  };
  pack();
  if (p.right == Side::weights) return multiply;
  return [pack, multiply] {
    pack();
    multiply();
  };
}

Run fastest(const Product& p, Type type) {
  std::vector<Run> ways{by_matmul(p, type, false), by_matmul(p, type, true)};
  if (type == Type::f32) ways.push_back(by_sgemm(p));
  std::vector<Seconds> times;
  for (const Run& way : ways) times.push_back(shortest(way));
  return ways[static_cast<std::size_t>(std::ranges::min_element(times) - times.begin())];
}

Seconds step_time(const Model& model, Type type) {
  std::vector<std::pair<std::int64_t, Run>> products;
  for (const Product& p : products_of(model)) products.emplace_back(p.count, fastest(p, type));
  const Run step = [&] {
    for (const auto& [count, run] : products) {
      for (std::int64_t i = 0; i < count; ++i) run();
    }
  };
  std::vector<Seconds> steps;
  for (Seconds all{0}; all < measured_time || steps.size() < least_steps; all += steps.back()) {
    steps.push_back(time_of(step));
  }
  std::ranges::nth_element(steps, steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2));
  return steps[steps.size() / 2];
}

int usage() {
  std::fprintf(stderr,
               "usage: gemm_bound --layers N --width N --heads N --context N --vocabulary N "
               "--rows N [--precision fp32|bf16]\n");
  return 2;
}

int measure(int argc, char** argv) {
  std::map<std::string, std::string> given{{"--precision", "fp32"}};
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  const auto number = [&](const char* name) {
    return std::strtoll(given[name].c_str(), nullptr, 10);
  };
  const Model model{number("--layers"),  number("--width"),      number("--heads"),
                    number("--context"), number("--vocabulary"), number("--rows")};
  const bool positive = std::min({model.layers, model.width, model.heads, model.context,
                                  model.vocabulary, model.rows}) > 0;
  if (!positive || model.width % model.heads != 0 || model.rows % model.context != 0)
    return usage();
  const Type type = given["--precision"] == "bf16" ? Type::bf16 : Type::f32;
  std::printf("tokens_per_s %.0f\n",
              static_cast<double>(model.rows) / step_time(model, type).count());
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  try {
    return muster::measure(argc, argv);
  } catch (const dnnl::error& error) {
    std::fprintf(stderr, "gemm_bound: oneDNN cannot compute this here: %s\n", error.what());
    return 1;
  }
}
