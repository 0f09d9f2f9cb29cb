#include <dnnl.h>

#include <dnnl.hpp>
#include <stdexcept>
#include <unordered_map>

#include "runtime/layer/gemm.h"

namespace muster {
namespace {

using Dims = dnnl::memory::dims;
using DataType = dnnl::memory::data_type;

dnnl_dim_t size_of(std::size_t count) {
  return static_cast<dnnl_dim_t>(count);
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// A product of one shape, compiled once, with the memory objects that its operands are put into.
class Product {
 public:
  Product(const GemmShape& shape, DataType type, bool bias)
      : stream_(engine()),
        a_(matrix(shape.m, shape.k, type, shape.transpose_a, shape.lda()), engine(), nullptr),
        b_(matrix(shape.k, shape.n, type, shape.transpose_b, shape.ldb()), engine(), nullptr),
        c_(matrix(shape.m, shape.n, DataType::f32, false, shape.n), engine(), nullptr),
        bias_(matrix(1, shape.n, DataType::f32, false, shape.n), engine(), nullptr) {
    dnnl::primitive_attr attributes;
    if (shape.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    primitive_ = dnnl::matmul(described(bias, attributes));
    arguments_ = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
    if (bias) arguments_.emplace(DNNL_ARG_BIAS, bias_);
  }

  void run(const void* a, const void* b, const float* bias, float* c) {
    // The library reads operands through pointers to non-const.
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    bias_.set_data_handle(const_cast<float*>(bias));
    c_.set_data_handle(c);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  static dnnl::memory::desc matrix(std::size_t rows, std::size_t columns, DataType type,
                                   bool transposed, std::size_t stride) {
    const Dims strides = transposed ? Dims{1, size_of(stride)} : Dims{size_of(stride), 1};
    return {{size_of(rows), size_of(columns)}, type, strides};
  }

  dnnl::matmul::primitive_desc described(bool bias, const dnnl::primitive_attr& attributes) const {
    using Matmul = dnnl::matmul;
    const auto a = a_.get_desc(), b = b_.get_desc(), c = c_.get_desc();
#if DNNL_VERSION_MAJOR >= 3
    using Description = Matmul::primitive_desc;
    return bias ? Description(engine(), a, b, bias_.get_desc(), c, attributes)
                : Description(engine(), a, b, c, attributes);
#else
    const auto description = bias ? Matmul::desc(a, b, bias_.get_desc(), c) : Matmul::desc(a, b, c);
    return Matmul::primitive_desc(description, attributes, engine());
#endif
  }

  dnnl::stream stream_;
  dnnl::memory a_, b_, c_, bias_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct ProductKey {
  GemmShape shape;
  DataType type;
  bool bias;
  friend bool operator==(const ProductKey&, const ProductKey&) = default;
};

struct ProductHash {
  std::size_t operator()(const ProductKey& key) const {
    std::size_t hash = 0;
    const GemmShape& s = key.shape;
    for (const std::size_t part : {s.m, s.n, s.k}) hash = hash * 31 + part;
    const bool flags[] = {s.transpose_a, s.transpose_b, s.add, key.bias};
    for (const bool flag : flags) hash = hash * 2 + flag;
    return hash * 2 + (key.type == DataType::bf16);
  }
};

// A model has a few dozen shapes. Products hold state while they run, so each thread has its own.
Product& product_of(const ProductKey& key) {
  thread_local std::unordered_map<ProductKey, Product, ProductHash> products;
  const auto found = products.find(key);
  if (found != products.end()) return found->second;
  try {
    return products.try_emplace(key, key.shape, key.type, key.bias).first->second;
  } catch (const dnnl::error& error) {
    throw std::runtime_error(std::string("oneDNN refused a matrix product: ") + error.what());
  }
}

}  // namespace

// Without a transposed B, oneDNN's older interface is the faster one by some percent.
void gemm(const GemmShape& shape, const float* a, const float* b, float* c, const float* bias) {
  if (bias != nullptr || shape.transpose_b) {
    return product_of({shape, DataType::f32, bias != nullptr}).run(a, b, bias, c);
  }
  const dnnl_status_t status =
      dnnl_sgemm(shape.transpose_a ? 'T' : 'N', 'N', size_of(shape.m), size_of(shape.n),
                 size_of(shape.k), 1, a, size_of(shape.lda()), b, size_of(shape.ldb()),
                 shape.add ? 1.0f : 0.0f, c, size_of(shape.n));
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused a matrix product");
}

void gemm(const GemmShape& shape, const Bf16* a, const Bf16* b, float* c, const float* bias) {
  product_of({shape, DataType::bf16, bias != nullptr}).run(a, b, bias, c);
}

bool has_bf16_gemm() {
  try {
    Product({.m = 16, .n = 16, .k = 16}, DataType::bf16, false);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace muster
