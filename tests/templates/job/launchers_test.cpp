// What a job file is told about launchers that its command runs, and about DeepSpeed's batch sizes.
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

std::string findings_with(const std::string& command, const std::string& more,
                         const std::map<std::string, std::string>& files = {}) {
  return printed(read_job("command: " + command + "\nenvironment: azureml:host\ncompute: local\n" +
                              more,
                          in_project(files))
                     .findings);
}

constexpr const char* two_nodes = "resources: {instance_count: 2}\n";
constexpr const char* two_by_two =
    "resources: {instance_count: 2}\n"
    "distribution: {type: pytorch, process_count_per_instance: 2}\n";

TEST_CASE("muster.remote_start is suggested for launchers that would go to other nodes by ssh") {
  const std::string hint = "'muster: {remote_start: true}'";
  for (const char* command : {"deepspeed --hostfile $MUSTER_HOSTFILE t.py", "horovodrun -np 4 t",
                              "mpirun -hosts a,b -ppn 2 t", "/usr/bin/mpiexec.hydra t"}) {
    CAPTURE(command);
    CHECK_THAT(findings_with(command, two_nodes), ContainsSubstring(hint));
    CHECK_THAT(findings_with(command, ""), !ContainsSubstring(hint));
    const std::string open = std::string(two_nodes) + "muster: {remote_start: true}\n";
    CHECK_THAT(findings_with(command, open), !ContainsSubstring(hint));
    CHECK_THAT(findings_with(command, open), ContainsSubstring("'[ $NODE_RANK = 0 ] || exit 0'"));
  }
  for (const char* command : {"deepspeed --no_ssh --node_rank 1 t.py", "python t.py --deepspeed d",
                              "mpirun -np 4 --host a,b t", "./deepspeedy"}) {
    CAPTURE(command);
    CHECK_THAT(findings_with(command, two_nodes), !ContainsSubstring(hint));
  }
}

TEST_CASE("accelerate launch is warned of where muster starts several processes a node") {
  const std::string warning = "'accelerate launch' starts processes of its own";
  CHECK_THAT(findings_with("accelerate launch t.py", two_by_two), ContainsSubstring(warning));
  CHECK_THAT(findings_with("accelerate launch t.py", two_nodes), !ContainsSubstring(warning));
  CHECK_THAT(findings_with("accelerate config; python t.py", two_by_two),
             !ContainsSubstring(warning));
}

TEST_CASE("a DeepSpeed configuration whose batch sizes cannot hold is warned of once") {
  const auto finding_of = [](const std::string& config,
                             const std::string& command = "python t.py --deepspeed ds.json") {
    return findings_with(command, two_by_two, {{"/project/ds.json", config}});
  };
  const std::string wrong =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,)"
      "\n\t\"gradient_accumulation_steps\": 2}";
  const std::string sentence =
      "'ds.json': train_batch_size 64 is not train_micro_batch_size_per_gpu 4 x "
      "gradient_accumulation_steps 2 x 4 processes";
  for (const char* command : {"python t.py --deepspeed ds.json", "python t.py --deepspeed=ds.json",
                              "deepspeed t.py --deepspeed --deepspeed_config 'ds.json' -x"}) {
    CAPTURE(command);
    CHECK_THAT(finding_of(wrong, command), ContainsSubstring(sentence));
  }
  const char* silent[] = {
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
          "gradient_accumulation_steps": 2})",
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": 2})",
      R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3})",
      R"({"train_batch_size": 12})",
      R"({"train_batch_size": 99999999999999999999})",
      R"({"train_batch_size": )",
      R"([1, 2])",
      ""};
  for (const char* config : silent) {
    CAPTURE(config);
    CHECK_THAT(finding_of(config), !ContainsSubstring("ds.json"));
  }
  CHECK_THAT(finding_of(R"({"train_batch_size": 10})"),
             ContainsSubstring("train_batch_size 10 is not"));
  CHECK_THAT(finding_of(wrong, "python t.py --deepspeed"), !ContainsSubstring("ds.json"));
  CHECK_THAT(finding_of(wrong, "python t.py --deepspeed other.json"),
             !ContainsSubstring("train_batch_size"));
}

TEST_CASE("processes_per_node has an effect with remote_start: the slots of the host file") {
  const std::string more = std::string(two_nodes) + "muster: {processes_per_node: 4";
  const std::string sentence = "has no effect without distribution.type";
  CHECK_THAT(findings_with("x", more + "}\n"), ContainsSubstring(sentence));
  const JobFile job = read_job("command: x\n" + more + ", remote_start: true}\n");
  CHECK_THAT(printed(job.findings), !ContainsSubstring(sentence));
  CHECK(job.spec.muster.remote_start);
  CHECK(job.spec.distribution.processes_per_node == 4);
}

}  // namespace
}  // namespace muster
