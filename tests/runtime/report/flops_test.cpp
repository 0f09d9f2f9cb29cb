#include "runtime/report/flops.h"

#include "tests/catch.h"

using namespace muster;

namespace {

// GPT-2 XL as llm.c trains it: the vocabulary padded to a multiple of 128.
const GptShape gpt2_1558m{48, 1600, 25, 1024, 50304};

}  // namespace

TEST_CASE("FLOPs per token of GPT-2 1558M by the four formulas") {
  CHECK(parameter_count(gpt2_1558m) == 1557686400);
  const FlopsPerToken flops = flops_per_token(gpt2_1558m);
  CHECK(flops.causal == Approx(9.818e9).epsilon(1e-4));
  CHECK(flops.megatron == Approx(10.274e9).epsilon(1e-4));
  CHECK(flops.recomputed == Approx(13.538e9).epsilon(1e-4));
}

// llm.c's figure for one H200: 57.5 k tok/s are 57.1 % by A and 59.7 % by B.
TEST_CASE("a utilisation is a rate over the peak, and HFU is there only with recomputation") {
  const FlopsPerToken flops = flops_per_token(gpt2_1558m);
  const Utilisation kept = utilisation_of(flops, 57500, 989.4e12, false);
  CHECK(kept.tflops == Approx(564.5).epsilon(1e-3));
  CHECK(kept.mfu_a == Approx(0.571).epsilon(2e-3));
  CHECK(kept.mfu_b == Approx(0.597).epsilon(2e-3));
  CHECK_FALSE(kept.hfu);
  const Utilisation again = utilisation_of(flops, 57500, 989.4e12, true);
  REQUIRE(again.hfu);
  CHECK(*again.hfu > again.mfu_b);
  CHECK(utilisation_of(flops, 57500, 0, false).mfu_a == 0);
}

TEST_CASE("the parameters of an untied head do work, a table that is only looked up does none") {
  GptShape untied = gpt2_1558m;
  untied.tied = false;
  CHECK(parameter_count(untied) == parameter_count(gpt2_1558m) + 50304 * 1600);
  CHECK(flops_per_token(untied).causal == flops_per_token(gpt2_1558m).causal);
}

// From a slow processor's 4 lanes at 0.5 GHz to 2 x 2 x 16 at 6 GHz, with something to spare.
TEST_CASE("a measured peak is that of a processor, and says how it was measured") {
  const PeakRate peak = measure_fma_peak(1);
  CHECK(peak.flops > 5e8);
  CHECK(peak.flops < 5e11);
  CHECK(peak.origin == "measured by an FMA loop");
}
