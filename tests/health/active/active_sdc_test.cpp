// The same product on every processor, and who is told to be wrong.
#include "health/active/fixed_product.h"
#include "health/active/matrix_kernel.h"
#include "health/active/processor_products.h"
#include "health/active/product_sum.h"
#include "health/active/timed_passes.h"
#include "health/benchmark/samples.h"
#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t right = 0xaa;
constexpr std::uint64_t other = 0xab;

// Four processors that compute ten products each.
ProcessorProducts four() {
  ProcessorProducts computed;
  computed.bits = {{"", right}};
  for (const char* name : {"cpu0", "cpu1", "cpu2", "cpu3"})
    computed.bits.push_back({name, right, 10});
  return computed;
}

}  // namespace

TEST_CASE("each kernel comes to the product that is known beforehand, each time") {
  for (const MatrixKernel& kernel : matrix_kernels()) {
    INFO(kernel.name);
    FixedProduct product(kernel);
    CHECK(product.sum() == right_product_sum(FixedProduct::size));
    CHECK(product.sum() == right_product_sum(FixedProduct::size));
  }
}

TEST_CASE("the processors of this host compute the right product") {
  const auto computed = compute_products({10ms, usable_processors()});
  REQUIRE(computed);
  CHECK(computed->unreached.empty());
  CHECK(computed->bits.size() == usable_processors().size() + 1);
  const PerformanceSample sample = judge_processor_products(*computed);
  CHECK(sample.value == 0.0);
  CHECK(sample.device == "cpu");
  CHECK(sample.metric == "cpu_sdc_wrong_products");
}

TEST_CASE("a processor that cannot be used is unknown, not passed over") {
  std::vector<int> processors = usable_processors();
  processors.push_back(16'000);
  const auto computed = compute_products({10ms, processors});
  REQUIRE(computed);
  const PerformanceSample sample = judge_processor_products(*computed);
  CHECK_FALSE(sample.value);
  CHECK(sample.error == "not computed on 1 processors that this process may not use: 16000");
  CHECK(use_processor(-1) == false);
}

TEST_CASE("the processor whose product is wrong once is named, with how often") {
  ProcessorProducts computed = four();
  CHECK(judge_processor_products(computed).value == 0.0);
  computed.bits.back().times = 8;
  computed.bits.push_back({"cpu3", other, 2});
  const PerformanceSample sample = judge_processor_products(computed);
  CHECK(sample.value == 2.0);
  CHECK(sample.note ==
        "cpu 3: its product has other bits than the others' or its own 2 of 10 times");
}

TEST_CASE("a processor that is wrong every time is named, and so are several") {
  ProcessorProducts computed = four();
  computed.bits[4].bits = other;
  computed.unreached = {7};
  CHECK(judge_processor_products(computed).note ==
        "cpu 3: its product has other bits than the others' 10 of 10 times");
  computed.bits[1].times = 9;
  computed.bits.push_back({"cpu0", other, 1});
  const PerformanceSample two = judge_processor_products(computed);
  CHECK(two.value == 11.0);
  CHECK(two.note.starts_with("cpu 3: "));
  CHECK_THAT(two.note, ContainsSubstring("; cpu 0: "));
  // Of many the first ones say how, the rest who.
  ProcessorProducts many = four();
  for (int i = 4; i < 20; ++i) many.bits.push_back({"cpu" + std::to_string(i), right, 2});
  for (int i = 4; i < 10; ++i) many.bits.push_back({"cpu" + std::to_string(i), other, 1});
  CHECK_THAT(judge_processor_products(many).note, ContainsSubstring("; and 2 more: cpu 8 cpu 9"));
}

TEST_CASE("where nobody can tell who is right, the node is wrong and the sides are named") {
  ProcessorProducts computed = four();
  computed.bits[1].bits = other;
  computed.bits[2].bits = other;
  computed.bits[0].bits = 0xac;
  const PerformanceSample sample = judge_processor_products(computed);
  CHECK(sample.value.value_or(0) > 0);
  CHECK_THAT(sample.note, ContainsSubstring("cpu0, cpu1"));
  CHECK_FALSE(judge_processor_products({}).value);
}

TEST_CASE("a wrong product of a processor becomes a failure that names it") {
  const ProbeOutput output = read_probe_output(
      "cpu_sdc_wrong_products cpu 2 fail cpu 3: its product has other bits\n"
      "sdc_wrong_products gpu0 0\n");
  REQUIRE(output.samples.size() == 2);
  const auto findings = judge_samples({}, output.samples, {});
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].check == "perf.sdc");
  CHECK(findings[0].device == "cpu");
  CHECK(findings[0].status == CheckStatus::fail);
  CHECK(text_of(findings[0].severity) == "rma");
  CHECK_THAT(findings[0].evidence.front(), ContainsSubstring("cpu 3"));
  CHECK(findings[1].status == CheckStatus::pass);
}

TEST_CASE("processors are listed as ranges") {
  CHECK(processors_text({}) == "");
  CHECK(processors_text({3}) == "3");
  CHECK(processors_text({0, 1, 2, 3, 8, 10, 11}) == "0-3, 8, 10-11");
  std::vector<int> odd;
  for (int i = 0; i < 40; ++i) odd.push_back(2 * i);
  CHECK(processors_text(odd) == "0, 2, 4, 6, 8, 10, 12, 14, ...");
}
