#include "health/active/product_bits.h"

#include <limits>

#include "health/active/product_sum.h"
#include "health/benchmark/samples.h"
#include "health/benchmark/tools/sample_line.h"
#include "tests/catch.h"

using namespace muster;

namespace {

using Bits = std::vector<ProductBits>;
using Lines = std::vector<std::string>;

// "gpu1 2: …", "gpu1 ?: …": what is judged of whom.
std::string line_of(const PerformanceSample& sample) {
  CHECK(sample.metric == corruption_metric);
  const std::string device = sample.device.empty() ? "-" : sample.device;
  if (!sample.value) return device + " ?: " + sample.error;
  const std::string number = device + " " + std::to_string(static_cast<int>(*sample.value));
  return *sample.value == 0 ? number : number + ": " + sample.note;
}
Lines judged(const Bits& bits) {
  Lines lines;
  for (const PerformanceSample& sample : judge_product_bits(bits)) lines.push_back(line_of(sample));
  return lines;
}

constexpr const char* torn = "?: others compute another product: who is right?";

// All elements of the right product, one after another, added up as a GPU does.
std::vector<float> product_of(int size) {
  const auto count = static_cast<std::uint64_t>(size);
  std::vector<float> product(count * count);
  for (std::uint64_t row = 0; row < count; ++row) {
    for (std::uint64_t column = 0; column < count; ++column) {
      float sum = 0;
      for (std::uint64_t k = 0; k < count; ++k) {
        sum += static_cast<float>(factor_element(0, k * count + row)) * factor_unit *
               static_cast<float>(factor_element(1, column * count + k)) * factor_unit;
      }
      product[column * count + row] = sum;
    }
  }
  return product;
}
std::uint64_t sum_of(const std::vector<float>& product, int size) {
  const auto count = static_cast<std::uint64_t>(size);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < product.size(); ++i)
    sum += row_weight(i % count) * column_weight(i / count) * product_term(product[i]);
  return sum;
}

}  // namespace

TEST_CASE("the sum of a product comes from its factors as well as from its elements") {
  for (const int size : {1, 2, 3, 64, 100}) {
    INFO(size);
    CHECK(sum_of(product_of(size), size) == right_product_sum(size));
  }
}

TEST_CASE("one wrong bit of one element changes the sum, whatever it makes of the element") {
  constexpr int size = 16;
  const std::vector<float> right = product_of(size);
  const std::uint64_t sum = sum_of(right, size);
  for (const std::size_t at : {std::size_t{0}, std::size_t{100}, right.size() - 1}) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> wrong = right;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &wrong[at], sizeof bits);
      bits ^= 1u << bit;
      std::memcpy(&wrong[at], &bits, sizeof bits);
      // Zero has two signs, and both are zero.
      if (wrong[at] == right[at]) continue;
      INFO(at << " bit " << bit << " makes " << wrong[at]);
      CHECK(sum_of(wrong, size) != sum);
    }
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 1e30f, 1e-30f}) {
      std::vector<float> wrong = right;
      wrong[at] = odd;
      CHECK(sum_of(wrong, size) != sum);
    }
  }
}

TEST_CASE("factors are exact in bf16, and no sum of their products leaves what fp32 holds") {
  int least = 0;
  int most = 0;
  for (std::uint64_t at = 0; at < 100'000; ++at) {
    const int element = factor_element(static_cast<int>(at % 2), at);
    least = std::min(least, element);
    most = std::max(most, element);
    const float value = static_cast<float>(element) * factor_unit;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    REQUIRE((bits & 0xffff) == 0);
  }
  CHECK(least == -factor_most);
  CHECK(most == factor_most);
  CHECK(factor_most * factor_most * product_size < 1 << 24);
}

TEST_CASE("GPUs that all come to the same are right") {
  CHECK(judged({}).empty());
  CHECK(judged({{"gpu0", 7}, {"gpu1", 7}}) == Lines{"gpu0 0", "gpu1 0"});
  CHECK(judged({{"", 7}, {"gpu0", 7}}) == Lines{"gpu0 0"});
  CHECK(judged({{"gpu0", 7}, {"gpu0", 7}}) == Lines{"gpu0 0"});
}

TEST_CASE("the odd one out is named, and so is one that differs from itself") {
  CHECK(judged({{"gpu0", 7}, {"gpu1", 7}, {"gpu2", 8}, {"gpu2", 8}}) ==
        Lines{"gpu0 0", "gpu1 0",
              "gpu2 2: its product has other bits than the others' 2 of 2 times"});
  CHECK(judged({{"gpu0", 7}, {"gpu1", 7}, {"gpu2", 7}, {"gpu2", 8}, {"gpu2", 7}}) ==
        Lines{"gpu0 0", "gpu1 0",
              "gpu2 1: its product has other bits than the others' or its own 1 of 3 times"});
  // Two that are never sure do not outvote those that are.
  CHECK(judged({{"gpu0", 1}, {"gpu0", 2}, {"gpu1", 1}, {"gpu1", 2}, {"gpu2", 7}, {"gpu3", 7}}) ==
        Lines{"gpu0 2: its product has other bits than the others' or its own 2 of 2 times",
              "gpu1 2: its product has other bits than the others' or its own 2 of 2 times",
              "gpu2 0", "gpu3 0"});
  CHECK(judged({{"gpu0", 1}, {"gpu0", 1}, {"gpu0", 2}}) ==
        Lines{"gpu0 1: its product has other bits than its own 1 of 3 times"});
}

TEST_CASE("the host, which knows the right sum, decides between two") {
  CHECK(judged({{"", 7}, {"gpu0", 7}, {"gpu1", 8}}) ==
        Lines{"gpu0 0", "gpu1 1: its product has other bits than the others' 1 of 1 times"});
  CHECK(judged({{"", 7}, {"gpu0", 8}, {"gpu1", 8}}) ==
        Lines{"- 1: its product has other bits than the others' 1 of 1 times", "gpu0 0", "gpu1 0"});
}

TEST_CASE("of two that differ, each the same every time, nobody is named") {
  CHECK(judged({{"gpu0", 7}, {"gpu0", 7}, {"gpu1", 8}, {"gpu1", 8}}) ==
        Lines{"- 1: products with other bits, each of them the same every time, of gpu0, gpu1",
              std::string("gpu0 ") + torn, std::string("gpu1 ") + torn});
  CHECK(judged({{"", 7}, {"gpu0", 8}}) ==
        Lines{"- 1: products with other bits, each of them the same every time, of the host, gpu0",
              std::string("gpu0 ") + torn});
  CHECK(
      judged({{"gpu0", 1}, {"gpu1", 1}, {"gpu2", 2}, {"gpu3", 2}})[0] ==
      "- 1: products with other bits, each of them the same every time, of gpu0, gpu1, gpu2, gpu3");
  // One that differs from itself is named all the same.
  CHECK(judged({{"gpu0", 1}, {"gpu1", 2}, {"gpu2", 1}, {"gpu2", 3}})[3] ==
        "gpu2 1: its product has other bits than its own 1 of 2 times");
}

TEST_CASE("a product that was computed once and by one alone proves nothing") {
  CHECK(judged({{"gpu0", 7}}) ==
        Lines{"gpu0 ?: it computed once: there is nothing to compare with"});
}

TEST_CASE("lines with checksums become a sample of each GPU, and findings that name it") {
  const ProbeOutput output = read_probe_output(
      "sdc_wrong_products gpu0 bits 0 00000000000000aa\n"
      "sdc_wrong_products gpu1 bits 0 00000000000000aa\n"
      "sdc_wrong_products gpu1 bits 1 00000000000000ab\n"
      "sdc_wrong_products gpu2 bits 0 00000000000000aa\n"
      "sdc_wrong_products gpu2 error cudaStreamSynchronize: lost\n"
      "sdc_wrong_products gpu3 bits 0 00000000000000ac\n"
      "sdc_wrong_products gpu3 error cudaStreamSynchronize: lost\n"
      "sdc_wrong_products - bits 0 00000000000000aa\n");
  CHECK(output.refused == 0);
  Lines lines;
  for (const PerformanceSample& sample : output.samples) lines.push_back(line_of(sample));
  CHECK(lines ==
        Lines{"gpu2 ?: cudaStreamSynchronize: lost",
              "gpu3 1: its product has other bits than the others' 1 of 1 times", "gpu0 0",
              "gpu1 1: its product has other bits than the others' or its own 1 of 2 times"});
  const auto findings = judge_samples({}, output.samples, {});
  REQUIRE(findings.size() == 4);
  CHECK(findings[1].check == "perf.sdc");
  CHECK(findings[1].device == "gpu3");
  CHECK(findings[1].status == CheckStatus::fail);
  CHECK(text_of(findings[1].severity) == "rma");
}

TEST_CASE("a line with a checksum that is none is refused") {
  const std::string good = "sdc_wrong_products gpu0 bits 0 00000000000000aa\n";
  for (const std::string bad :
       {"gpu0 bits 1", "gpu0 bits 1 ", "gpu0 bits 1 aa", "gpu0 bits -1 00000000000000aa",
        "gpu0 bits 1 00000000000000ag", "gpu0 bits 1 -0000000000000aa",
        "gpu0 bits x 00000000000000aa", "gpu0 bits 1 00000000000000aa ",
        "gpu0 bits 99999999999 00000000000000aa", "g!u0 bits 1 00000000000000aa",
        "gpu0 bits 0 00000000000000ab", "gpu0 bits  00000000000000aa"}) {
    INFO(bad);
    const ProbeOutput output = read_probe_output(good + "sdc_wrong_products " + bad + "\n" + good);
    CHECK(output.refused == 2);
    REQUIRE(output.samples.size() == 1);
    CHECK_FALSE(output.samples[0].value);
  }
  CHECK(read_probe_output("stream_mb_per_s gpu0 bits 0 00000000000000aa\n").refused == 1);
  CHECK(read_probe_output(good.substr(0, good.size() - 1)).samples.empty());
}

TEST_CASE("a flood of checksums is cut") {
  std::string text;
  for (std::size_t i = 0; i < product_bits_max + 1000; ++i)
    text += "sdc_wrong_products gpu0 bits " + std::to_string(i) + " 00000000000000aa\n";
  const ProbeOutput output = read_probe_output(text);
  CHECK(output.refused == 1000);
  CHECK(output.samples.size() == 1);
}
