#include "scheduler/state/resume_point.h"

#include <algorithm>

#include "scheduler/model/exit_code.h"
#include "scheduler/restart/policy.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

void set_disk(Bench& bench, int nodes, CheckpointRef checkpoint) {
  for (int i = 1; i <= nodes; ++i) bench.on_disk[NodeId{node_name(i)}] = checkpoint;
}

// What muster-train says of a rank that computes wrongly, with exit 3.
constexpr const char* doubt = "muster-train: rank 0 on h01: hardware in doubt: odd weights";

void set_certified(Bench& bench, std::optional<CheckpointRef> checkpoint) {
  for (int i = 1; i <= 4; ++i) bench.certified[NodeId{node_name(i)}] = checkpoint;
}

// Ran to step 450 and saved it; that of step 400 is certified.
// In epoch 2 it has had its first restart, which is at once.
void run_to_450(Bench& bench, ResumeFrom from = ResumeFrom::latest, int epoch = 1) {
  bench.start(a_job().on_nodes(2).resume_from(from));
  if (epoch == 2) bench.exit_and_obey(0, {9, 0});
  bench.progress(450, sealed(450, epoch));
  set_disk(bench, 4, sealed(450, epoch));
  set_certified(bench, sealed(400, epoch));
}

std::int64_t resumed_step(const Bench& bench) {
  REQUIRE(bench.the<LaunchBegun>().resume_from);
  return bench.the<LaunchBegun>().resume_from->step;
}

}  // namespace

TEST_CASE("a first attempt without checkpoints starts from the beginning") {
  Bench bench(a_job().on_nodes(1));
  CHECK(!bench.the<LaunchBegun>().resume_from);
}

TEST_CASE("another program's newest checkpoint is the latest, and muster-train's come before it") {
  const CheckpointRef older{90, "/out/ckpt_90.pt", "torch", 1000};
  const CheckpointRef later{CheckpointRef::no_step, "/out/last.ckpt", "lightning", 2000};
  Bench bench;
  bench.on_disk[NodeId{"h01"}] = later;
  bench.on_disk[NodeId{"h02"}] = older;
  bench.start(a_job().on_nodes(2));
  CHECK(bench.the<LaunchBegun>().resume_from->directory == "/out/last.ckpt");
  CHECK(bench.the<LaunchBegun>().why ==
        "newest complete checkpoint (lightning), which h02 does not see: checkpoints belong in a "
        "directory that all nodes share");
  CHECK(is_newer(sealed(1), later));
  CHECK_FALSE(is_newer(later, sealed(1)));
  CHECK(is_newer(later, older));
  CHECK(step_text(later) == "last.ckpt");
  CHECK(step_text(older) == "step 90");
  CHECK(base_step(later) == 0);
}

TEST_CASE("another program's checkpoint that all nodes see is called so in few words") {
  const CheckpointRef shared{90, "/out/ckpt_90.pt", "torch", 1000};
  Bench bench;
  for (int i = 1; i <= 4; ++i) bench.on_disk[NodeId{node_name(i)}] = shared;
  bench.start(a_job().on_nodes(3));
  CHECK(bench.the<LaunchBegun>().why == "newest complete checkpoint (torch)");
}

TEST_CASE("another program's checkpoint that no node has any more is not named") {
  Bench bench(a_job().on_nodes(1));
  bench.progress(0, CheckpointRef{90, "/out/ckpt_90.pt", "torch", 1000});
  bench.on_disk.clear();
  bench.fail_and_retry(0, {0, SIGKILL});
  CHECK_FALSE(bench.last<LaunchBegun>()->resume_from);
}

TEST_CASE("a first attempt goes on from the newest checkpoint that a node found") {
  Bench bench;
  bench.on_disk[NodeId{"h01"}] = sealed(40);
  bench.on_disk[NodeId{"h02"}] = sealed(80);
  bench.start(a_job().on_nodes(2));
  CHECK(resumed_step(bench) == 80);
}

TEST_CASE("resume.from none starts afresh, but restarts go on from the job's own checkpoints") {
  Bench bench;
  set_disk(bench, 1, sealed(500, 9));
  bench.start(a_job().on_nodes(1).resume_from(ResumeFrom::none));
  CHECK(!bench.the<LaunchBegun>().resume_from);
  bench.observe(ProgressSeen{JobId{"train"}, AttemptId{0}, 10, sealed(10)});
  bench.fail_and_retry(0, {1, 0});
  CHECK(resumed_step(bench) == 10);
}

TEST_CASE("resume.from a path uses it until the job has sealed something itself") {
  Bench bench;
  const std::string path = "/elsewhere/s000000300-g7";
  bench.start(a_job().on_nodes(1).resume_from(ResumeFrom::path, path));
  CHECK(resumed_step(bench) == 300);
  CHECK(bench.the<LaunchBegun>().resume_from->directory == path);
  bench.fail_and_retry(0, {1, 0});
  CHECK(bench.the<LaunchBegun>().resume_from->directory == path);
  bench.progress(310, sealed(310, 2));
  bench.fail_and_retry(0, {1, 0});
  CHECK(resumed_step(bench) == 310);
}

TEST_CASE("a replacement node without checkpoints does not throw the job back") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(120, sealed(100));
  bench.link(2, 2);
  bench.obey();
  bench.obey_after(Seconds{10});
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
  CHECK(resumed_step(bench) == 100);
}

TEST_CASE("a checkpoint that is on no node any more is given up, with a reason") {
  Bench bench(a_job().on_nodes(1));
  bench.exit_and_obey(0, {2, 0});  // the first restart is at once
  bench.progress(80, sealed(80, 2));
  bench.progress(100, sealed(100, 2));
  bench.exit_and_obey(0, {1, 0});
  set_disk(bench, 4, sealed(80, 2));
  bench.obey_after(Seconds{10});
  CHECK(resumed_step(bench) == 80);
  CHECK(bench.the<LaunchBegun>().went_back);
  CHECK_THAT(bench.the<LaunchBegun>().why, ContainsSubstring("step 100"));
}

TEST_CASE("a finished job is resumed under the next attempt number, from the step asked for") {
  Bench bench(a_job().on_nodes(1).restarts(0));
  bench.progress(200, sealed(200));
  bench.fail_and_retry(0, {1, 0});
  REQUIRE(!bench.is_live());
  SECTION("from the newest checkpoint") {
    const auto request = resume_request(bench.journal, {});
    REQUIRE(request);
    bench.on_disk.clear();
    bench.observe(*request);
    bench.obey();
    CHECK(bench.attempt().id == AttemptId{1});
    CHECK(resumed_step(bench) == 200);
  }
  SECTION("from an older step, which makes the newer ones another history") {
    bench.asked[NodeId{"h01"}] = sealed(150);
    bench.observe(*resume_request(bench.journal, 150));
    bench.obey();
    CHECK(resumed_step(bench) == 150);
    CHECK(bench.the<LaunchBegun>().resume_from->directory == sealed(150).directory);
    CHECK(bench.the<LaunchBegun>().went_back);
    bench.progress(160, sealed(160, 2));
    set_disk(bench, 4, sealed(200, 1));
    bench.exit_and_obey(0, {1, 0});
    const auto request = resume_request(bench.journal, {});
    const auto launched = std::ranges::find_if(
        bench.journal, [](const Record& one) { return record_as<LaunchBegun>(one) != nullptr; });
    CHECK(request->first_launch == launched->at);
    bench.observe(*request);
    bench.obey();
    CHECK(resumed_step(bench) == 160);
  }
}

TEST_CASE("a step that no node has a checkpoint of is no place to go back to") {
  Bench bench(a_job().on_nodes(1).restarts(0));
  bench.progress(200, sealed(200));
  bench.fail_and_retry(0, {1, 0});
  const auto launches = std::count_if(bench.journal.begin(), bench.journal.end(), [](auto& record) {
    return record_as<LaunchBegun>(record) != nullptr;
  });
  SECTION("the job ends and says so") {
    bench.asked[NodeId{"h01"}] = sealed(150);  // which nobody asked for
    bench.observe(*resume_request(bench.journal, 999));
    bench.obey();
    CHECK(!bench.is_live());
    const auto* ended = bench.last<JobEnded>();
    CHECK(ended->exit_code == static_cast<int>(ExitCode::launch));
    CHECK_THAT(ended->reason, ContainsSubstring("h01 has no committed checkpoint of step 999"));
    CHECK(launches == std::count_if(bench.journal.begin(), bench.journal.end(), [](auto& record) {
            return record_as<LaunchBegun>(record) != nullptr;
          }));
  }
  SECTION("but step 0 is the beginning") {
    bench.observe(*resume_request(bench.journal, 0));
    bench.obey();
    CHECK(resumed_step(bench) == 0);
    CHECK(bench.the<LaunchBegun>().resume_from->directory.empty());
  }
}

TEST_CASE("a job whose checkpoints are another program's has no certified one to go back to") {
  Bench bench(a_job().on_nodes(1).restarts(0));
  bench.progress(200, CheckpointRef{200, "/ckpt/model_200.pt", "torch", 9});
  bench.fail_and_retry(0, {1, 0});
  REQUIRE(!bench.is_live());
  CHECK_THAT(resume_request(bench.journal, {}, true).error().message,
             ContainsSubstring("another program's (torch)"));
  CHECK(resume_request(bench.journal, 100));
}

TEST_CASE("a path to resume from whose name has no step is told without one") {
  Bench bench;
  bench.start(a_job().on_nodes(1).resume_from(ResumeFrom::path, "/elsewhere/model"));
  CHECK(step_text(*bench.the<LaunchBegun>().resume_from) == "model");
  CHECK(bench.the<LaunchBegun>().why == "muster.resume.from names /elsewhere/model");
}

TEST_CASE("a job that is going on, or has ended well, is not resumed without a step") {
  Bench bench(a_job().on_nodes(1));
  CHECK_THAT(resume_request(bench.journal, {}).error().message, ContainsSubstring("has not ended"));
  bench.finish();
  CHECK_THAT(resume_request(bench.journal, {}).error().message, ContainsSubstring("--from"));
  CHECK(resume_request(bench.journal, 5));
}

TEST_CASE("after a rank that computed wrongly the newest certified checkpoint is taken") {
  Bench bench;
  run_to_450(bench);
  bench.fail_and_retry(0, {3, 0}, doubt);
  CHECK(resumed_step(bench) == 400);
  CHECK(bench.the<LaunchBegun>().went_back);
  CHECK(bench.the<LaunchBegun>().why.starts_with("newest certified checkpoint: rank 0 on h01"));
  CHECK_THAT(bench.the<LaunchBegun>().why, ContainsSubstring("class sdc"));
  CHECK(bench.the<LaunchBegun>().why.ends_with("; step 450 is not certified"));
  SECTION("and what was saved before is another history for those that follow") {
    bench.progress(410, sealed(410, 2));
    set_disk(bench, 4, sealed(450));
    bench.fail_and_retry(0, {1, 0});
    CHECK(resumed_step(bench) == 410);
    CHECK(bench.the<LaunchBegun>().why == "newest committed checkpoint");
  }
}

TEST_CASE("after a memory error of a GPU too, but not after one that was lost") {
  const auto resumed_after = [](const std::string& line) {
    Bench bench;
    run_to_450(bench);
    bench.fail_and_retry(0, {0, 6}, line);
    return resumed_step(bench);
  };
  CHECK(resumed_after("RuntimeError: CUDA error: uncorrectable ECC error encountered") == 400);
  CHECK(resumed_after("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python") == 400);
  CHECK(resumed_after("NVRM: Xid (PCI:0000:3b:00): 94, pid=1, name=python") == 450);
  CHECK(resumed_after("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python") == 450);
  CHECK(resumed_after(ordinary) == 450);
}

TEST_CASE("an attempt in between that did not start does not lift the doubt") {
  Bench bench;
  run_to_450(bench, ResumeFrom::latest, 2);
  bench.exit_and_obey(0, {3, 0}, {}, "train", doubt);
  bench.pass(Seconds{600});
  const Attempt& second = bench.attempt();
  for (const AttemptNode& node : second.nodes) {
    bench.observe(
        NodeChecked{JobId{"train"}, second.id, node.id, {}, sealed(450, 2), sealed(400, 2)});
  }
  bench.observe(NodeStaged{JobId{"train"}, second.id, second.nodes[0].id, "disk full"});
  bench.obey();
  bench.obey_after(Seconds{600});
  REQUIRE(bench.attempt().id == AttemptId{3});
  CHECK(resumed_step(bench) == 400);
}

TEST_CASE("without a certified checkpoint a doubted run starts anew") {
  Bench bench;
  run_to_450(bench);
  set_certified(bench, {});
  bench.fail_and_retry(0, {3, 0}, doubt);
  CHECK(!bench.the<LaunchBegun>().resume_from);
  CHECK(bench.the<LaunchBegun>().went_back);
  CHECK(bench.the<LaunchBegun>().why.starts_with("none is certified: rank 0"));
}

TEST_CASE("a checkpoint that is not certified any more is not taken for one") {
  Bench bench;
  run_to_450(bench, ResumeFrom::latest, 2);
  bench.exit_and_obey(0, {3, 0}, {}, "train", doubt);
  CHECK(bench.job().newest_certified->step == 400);
  set_disk(bench, 4, sealed(300, 2));
  set_certified(bench, sealed(300, 2));  // somebody quarantined it, and all after it
  bench.obey_after(Seconds{600});
  CHECK(resumed_step(bench) == 300);
}

TEST_CASE("nodes that have no checkpoint do not make a certified one unknown") {
  Bench bench;
  run_to_450(bench);
  bench.exit_and_obey(0, {3, 0}, {}, "train", doubt);
  bench.on_disk.clear();
  bench.certified.clear();
  bench.obey_after(Seconds{600});
  CHECK(resumed_step(bench) == 400);
}

TEST_CASE("resume.from certified takes no other, whatever ended the attempt before") {
  Bench bench;
  run_to_450(bench, ResumeFrom::certified);
  bench.fail_and_retry(0, {1, 0});
  CHECK(resumed_step(bench) == 400);
  CHECK_THAT(bench.the<LaunchBegun>().why, ContainsSubstring("muster.resume.from names it"));
  set_certified(bench, sealed(400));  // of the first attempt, and still on the lineage
  bench.progress(430, sealed(430, 2));
  bench.fail_and_retry(0, {1, 0});
  CHECK(resumed_step(bench) == 400);
}

TEST_CASE("a first attempt that wants a certified checkpoint starts anew without a word of doubt") {
  Bench bench(a_job().on_nodes(1).resume_from(ResumeFrom::certified));
  CHECK(!bench.the<LaunchBegun>().resume_from);
  CHECK(bench.the<LaunchBegun>().why == "no committed checkpoint");
}

TEST_CASE("a job that ended in doubt, or is asked to, is resumed from a certified checkpoint") {
  Bench bench(a_job().on_nodes(1).restarts(0).reschedules(0));
  bench.progress(450, sealed(450));
  set_disk(bench, 4, sealed(450));
  set_certified(bench, sealed(400));
  SECTION("because of its end") {
    bench.fail_and_retry(0, {3, 0}, doubt);
    REQUIRE(!bench.is_live());
    CHECK(resume_request(bench.journal, {})->certified_because);
    CHECK(!resume_request(bench.journal, 450)->certified_because);
    bench.observe(*resume_request(bench.journal, {}));
    bench.obey();
    CHECK(resumed_step(bench) == 400);
    CHECK_THAT(bench.the<LaunchBegun>().why, ContainsSubstring("class sdc"));
    CHECK(!bench.job().certified_because);
  }
  SECTION("because somebody asks") {
    bench.fail_and_retry(0, {1, 0});
    CHECK(!resume_request(bench.journal, {})->certified_because);
    bench.observe(*resume_request(bench.journal, {}, true));
    bench.obey();
    CHECK(resumed_step(bench) == 400);
    CHECK_THAT(bench.the<LaunchBegun>().why, ContainsSubstring("it was requested"));
  }
  SECTION("also when it ended well") {
    bench.finish();
    CHECK(resume_request(bench.journal, {}, true));
  }
}

TEST_CASE("step and generation are read from a checkpoint's directory name, or are unknown") {
  CHECK(step_of("/ckpt/s000001200-g3") == 1200);
  CHECK(generation_of("/ckpt/s000001200-g3/") == 3);
  CHECK(!generation_of("/ckpt/global_step100"));
  CHECK(!generation_of("/ckpt/s1-gx"));
  CHECK(!step_of(""));
  CHECK(!step_of("/"));
}

TEST_CASE("the checkpoint on record is gone only when every node tells of older ones") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_and_obey(0, {2, 0});  // the first restart is at once
  bench.progress(100, sealed(100, 2));
  bench.exit_and_obey(0, {1, 0});
  bool is_gone = false;
  SECTION("one has an older one, the other says nothing") {
    bench.on_disk[NodeId{"h01"}] = sealed(80, 2);
  }
  SECTION("all have that one") {
    set_disk(bench, 4, sealed(100, 2));
  }
  SECTION("all have older ones") {
    set_disk(bench, 4, sealed(80, 2));
    bench.on_disk[NodeId{"h02"}] = sealed(90, 2);
    is_gone = true;
  }
  bench.obey_after(Seconds{10});
  CHECK(resumed_step(bench) == (is_gone ? 90 : 100));
  CHECK(bench.the<LaunchBegun>().went_back == is_gone);
}

TEST_CASE("the newer checkpoint has the higher step, then the higher generation") {
  std::optional<CheckpointRef> best;
  keep_newer(best, std::nullopt);
  CHECK(!best);
  keep_newer(best, sealed(100, 2));
  for (const CheckpointRef& older :
       {sealed(99, 9), sealed(100, 1), CheckpointRef{100, "/ckpt/of another program"}}) {
    keep_newer(best, older);
    CHECK(best->directory == sealed(100, 2).directory);
  }
  keep_newer(best, std::nullopt);
  REQUIRE(best);
  keep_newer(best, sealed(100, 3));
  CHECK(best->directory == sealed(100, 3).directory);
  keep_newer(best, sealed(101, 1));
  CHECK(best->step == 101);
}

TEST_CASE("a checkpoint counts up to the step at which a later launch began") {
  Job job;
  job.forks = {{Epoch{3}, 50}};
  CHECK(is_on_lineage(job, sealed(50, 2)));
  CHECK(!is_on_lineage(job, sealed(51, 2)));
  CHECK(is_on_lineage(job, sealed(51, 3)));
  CHECK(is_on_lineage(job, {51, "/ckpt/of another program"}));
  add_fork(job.forks, Epoch{4}, 70);
  CHECK(job.forks.size() == 2);
  add_fork(job.forks, Epoch{5}, 50);
  REQUIRE(job.forks.size() == 1);
  CHECK(job.forks[0].epoch == Epoch{5});
}
