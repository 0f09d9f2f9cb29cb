#include "cli/job/plan.h"

#include <nlohmann/json.hpp>

#include "cli/job/plan.h"
#include "scheduler/state/membership.h"
#include "tests/catch.h"

using namespace muster;
using Words = std::vector<std::string>;

namespace {

JobSpec job_of(const std::string& command) {
  JobSpec spec;
  spec.command = command;
  return spec;
}

ComputeTarget this_host() {
  ComputeTarget target;
  target.nodes.resize(2);
  return target;
}

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

}  // namespace

TEST_CASE("the options of muster-train are found in a shell's line") {
  const std::pair<const char*, Words> cases[] = {
      {"muster-train --steps 5", {"--steps", "5"}},
      {"/opt/bin/muster-train --out 'a b' --data \"c\\\"d\"", {"--out", "a b", "--data", "c\"d"}},
      {"cd x && OMP_NUM_THREADS=1 exec ./muster-train --steps 5; echo done", {"--steps", "5"}},
      {"muster-train --data a \\\n  --steps 5 >log 2>&1", {"--data", "a", "--steps", "5"}},
      {"muster-train --steps $STEPS", {"--steps", "$STEPS"}},
      {"muster-train", {}},
      {"muster-train --steps 5 2>&1", {"--steps", "5"}},
      {"muster-train --steps '5", {"--steps", "5"}},
  };
  for (const auto& [command, words] : cases) {
    INFO(command);
    CHECK(train_words(job_of(command)) == words);
  }
  for (const char* command : {"python train.py --steps 5", "", "echo muster-training", "'muster-",
                              "muster-train tokenize --out x y", "echo ; '' |"}) {
    INFO(command);
    CHECK_FALSE(train_words(job_of(command)));
  }
}

TEST_CASE("a program that is an input of the job is known by its path") {
  JobSpec spec = job_of("\x01inputs.program\x02 --data \x01inputs.data\x02 --steps 5");
  CHECK_FALSE(train_words(spec));
  spec.inputs["program"].path = "/somewhere/bin/muster-train";
  CHECK(train_words(spec) == Words{"--data", "\x01inputs.data\x02", "--steps", "5"});
}

TEST_CASE("memory per rank is told with what there is, which pretend nodes share") {
  const JobSpec spec = job_of("muster-train --width 512 --layers 8 --batch 16");
  const auto memory = train_memory(spec, this_host(), 2, 8 * gib);
  REQUIRE(memory);
  REQUIRE(memory->bytes);
  CHECK(memory->available == 4 * gib);
  CHECK_FALSE(memory->lacks());
  CHECK(train_memory_text(*memory).starts_with("per rank: 0."));
  CHECK(train_memory_text(*memory).ends_with(" of 4.000 GiB: fits"));
  CHECK(train_memory_document(*memory).at("fits") == true);
}

TEST_CASE("what is held whole in spite of --zero, and a slow share, are among the findings") {
  const auto memory =
      train_memory(job_of("muster-train --batch 10 --micro-batch 2 --zero 2"), this_host(), 4, gib);
  REQUIRE(memory);
  REQUIRE(memory->remarks.size() == 2);
  CHECK_THAT(memory->remarks[0], ContainsSubstring("every rank holds whole gradients"));
  CHECK_THAT(memory->remarks[1], ContainsSubstring("computes 4 of 10 sequences"));
  CHECK(train_memory_document(*memory).at("remarks").size() == 2);
}

TEST_CASE("what does not fit is told with the cheapest change that helps") {
  const JobSpec spec = job_of("muster-train --width 1024 --layers 24 --batch 16 --zero 0");
  const auto memory = train_memory(spec, this_host(), 2, 9 * gib);
  REQUIRE(memory);
  CHECK(memory->lacks());
  CHECK_THAT(train_memory_text(*memory), ContainsSubstring("does not fit; would with --zero "));
  CHECK(train_memory_document(*memory).at("fits") == false);
}

TEST_CASE("nodes elsewhere are known by their size, or not at all") {
  JobSpec spec = job_of("muster-train --width 512");
  ComputeTarget target = this_host();
  target.nodes[0].transport = TransportKind::ssh;
  auto memory = train_memory(spec, target, 2, 8 * gib);
  REQUIRE(memory);
  CHECK_FALSE(memory->available);
  CHECK_THAT(train_memory_text(*memory), ContainsSubstring("not known before they are queried"));
  CHECK(train_memory_document(*memory).at("fits").is_null());
  spec.instance_types = {"Standard_HB120rs_v3"};
  memory = train_memory(spec, target, 2, 8 * gib);
  REQUIRE(memory->available);
  CHECK(*memory->available / gib == 224);  // two ranks on one of 448 GiB
}

TEST_CASE("options that no run can have are told in the place of a figure") {
  for (const char* command : {"muster-train --batch $B", "muster-train --heads 3",
                              "muster-train --no-such-option", "muster-train --batch 1"}) {
    INFO(command);
    const auto memory = train_memory(job_of(command), this_host(), 2, 8 * gib);
    REQUIRE(memory);
    CHECK_FALSE(memory->bytes);
    CHECK_THAT(train_memory_text(*memory), ContainsSubstring("per rank: not known: "));
  }
  CHECK_FALSE(train_memory(job_of("python x.py"), this_host(), 2, 8 * gib));
}

TEST_CASE("an elastic job is counted as what it is: the whole state, with as few ranks as may be") {
  JobSpec fixed = job_of("muster-train --width 512 --layers 8 --batch 16 --zero 3");
  fixed.distribution.type = DistributionType::pytorch;
  fixed.instance_count = 2;
  JobSpec elastic = fixed;
  elastic.muster.nodes_min = 1;
  elastic.muster.nodes_max = 2;
  REQUIRE(is_elastic(elastic));
  JobSpec alone = job_of(
      "muster-train --width 512 --layers 8 --batch 16 --zero 0 --deterministic "
      "--checkpoint-mode background");
  const auto bytes = [](const JobSpec& spec, std::size_t ranks) {
    return train_memory(spec, this_host(), ranks, 8 * gib)->bytes.value_or(0);
  };
  CHECK(bytes(elastic, 2) >= bytes(alone, 1));
  CHECK(bytes(elastic, 2) > bytes(fixed, 2) * 3 / 2);
  elastic.muster.nodes_min = 2;
  elastic.muster.nodes_max = 4;
  CHECK(bytes(elastic, 2) < bytes(alone, 1));
}

TEST_CASE("more ranks than the batch feeds are refused before anything is started") {
  JobFile job;
  job.spec = job_of("muster-train --batch 4");
  job.spec.distribution.type = DistributionType::pytorch;
  job.spec.muster.nodes_min = 1;
  job.spec.muster.nodes_max = 4;
  CHECK(train_findings(job, this_host()).empty());
  job.spec.muster.nodes_max = 5;
  const auto findings = train_findings(job, this_host());
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::error);
  CHECK_THAT(print(findings[0]), ContainsSubstring("muster.nodes.max: muster-train cannot run so: "
                                                   "--batch: 4 sequences cannot feed 5 ranks"));
  job.spec = job_of("muster-train --batch 4 --heads 3");
  CHECK_THAT(print(train_findings(job, this_host()).at(0)),
             ContainsSubstring("command: muster-train cannot run so: "));
  // What only a shell or another muster-train knows is nobody's error.
  for (const char* command : {"muster-train --batch $B", "muster-train --no-such-option", "true"}) {
    job.spec = job_of(command);
    CHECK(train_findings(job, this_host()).empty());
  }
}
