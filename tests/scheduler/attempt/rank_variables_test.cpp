#include "scheduler/attempt/rank_environment.h"

#include "tests/catch.h"
#include "tests/scheduler/builders.h"

using namespace muster;
using namespace muster::test;

namespace {

const std::vector<NodeFacts> two_nodes{{NodeId{"h01"}, "10.0.0.1", 8, {20001}},
                                       {NodeId{"h02"}, "10.0.0.2", 16, {}}};

Environment environment(JobBuilder& job, int rank, const std::vector<NodeFacts>& nodes = two_nodes,
                        const std::vector<int>& processes = {}) {
  const JobId id{"train"};
  const GangVariables gang(job.spec(), id, AttemptId{2}, nodes, processes);
  Environment all = gang.shared();
  all.merge(gang.own(RankId{rank}));
  return all;
}

}  // namespace

TEST_CASE("a pytorch rank gets the torch family and the node variables of Azure") {
  JobBuilder job = a_job().ranks_per_node(4);
  job.spec().experiment_name = "gpt";
  const std::map<std::string, std::string> expected{
      {"AZUREML_CR_NODE_RANK", "1"},
      {"AZUREML_EXPERIMENT_ID", "gpt"},
      {"AZUREML_PROCESS_NAME", "rank_6"},
      {"AZUREML_RUN_ID", "train"},
      {"AZ_BATCHAI_JOB_MASTER_NODE_IP", "10.0.0.1"},
      {"AZ_BATCHAI_MPI_MASTER_NODE", "10.0.0.1"},
      {"AZ_BATCH_HOST_LIST", "10.0.0.1,10.0.0.2"},
      {"AZ_BATCH_IS_CURRENT_NODE_MASTER", "false"},
      {"AZ_BATCH_MASTER_NODE", "10.0.0.1:6000"},
      {"AZ_BATCH_NODE_IS_DEDICATED", "true"},
      {"AZ_BATCH_NODE_LIST", "10.0.0.1;10.0.0.2"},
      {"CCP_NODES", "2 10.0.0.1 8 10.0.0.2 16"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "20001"},
      {"MUSTER_ATTEMPT", "2"},
      {"MUSTER_EPOCH", "3"},
      {"MUSTER_JOB", "train"},
      {"NODE_RANK", "1"},
      {"OMP_NUM_THREADS", "4"},
      {"PYTHONUNBUFFERED", "1"},
      {"RANK", "6"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "6"},
      {"ROLE_WORLD_SIZE", "8"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_RUN_ID", "train"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"WORLD_SIZE", "8"},
  };
  CHECK(environment(job, 6) == expected);
}

TEST_CASE("an mpi rank gets both families") {
  JobBuilder job = a_job().ranks_per_node(2);
  job.spec().distribution.type = DistributionType::mpi;
  const auto env = environment(job, 3);
  CHECK(env.at("OMPI_COMM_WORLD_RANK") == "3");
  CHECK(env.at("OMPI_COMM_WORLD_SIZE") == "4");
  CHECK(env.at("OMPI_COMM_WORLD_LOCAL_RANK") == "1");
  CHECK(env.at("OMPI_COMM_WORLD_LOCAL_SIZE") == "2");
  CHECK(env.at("WORLD_SIZE") == "4");
  CHECK(!env.count("TORCHELASTIC_RUN_ID"));
  CHECK(!env.count("OMP_NUM_THREADS"));
}

TEST_CASE("a tensorflow process gets its cluster and its task") {
  JobBuilder job = a_job();
  job.spec().distribution.type = DistributionType::tensorflow;
  job.spec().distribution.worker_count = 2;
  job.spec().distribution.parameter_server_count = 1;
  const std::vector<NodeFacts> nodes{{NodeId{"h01"}, "10.0.0.1", 8, {20001, 20002}},
                                     {NodeId{"h02"}, "fd00::2", 8, {20003}}};
  const auto env = environment(job, 1, nodes);
  CHECK(
      env.at("TF_CONFIG") ==
      R"({"cluster": {"worker": ["10.0.0.1:20001", "[fd00::2]:20003"], "ps": ["10.0.0.1:20002"]}, )"
      R"("task": {"type": "ps", "index": 0}, "environment": "cloud"})");
  CHECK(!env.count("RANK"));
  CHECK(env.at("NODE_RANK") == "0");
}

TEST_CASE("a node of a ray job is told the head's address and what Ray is to be told") {
  JobBuilder job = a_job();
  job.spec().distribution.type = DistributionType::ray;
  const std::vector<NodeFacts> nodes{{NodeId{"h01"}, "fd00::1", 8, {20001, 20002}},
                                     {NodeId{"h02"}, "10.0.0.2", 8, {}}};
  auto env = environment(job, 1, nodes);
  CHECK(env.at("RAY_ADDRESS") == "[fd00::1]:20001");
  CHECK(env.at("MUSTER_RAY_NODES") == "2");
  CHECK(env.at("MUSTER_RAY_NODE_ADDRESS") == "10.0.0.2");
  CHECK(env.at("MUSTER_RAY_HEAD_ARGS") ==
        "--port=20001 --dashboard-host=127.0.0.1 --dashboard-port=20002 ");
  CHECK(env.at("MUSTER_RAY_WORKER_ARGS") == "");
  CHECK(!env.count("RANK"));
  job.spec().recorded = {{"distribution.port", "6379"},
                         {"distribution.dashboard_port", "8265"},
                         {"distribution.include_dashboard", "true"},
                         {"distribution.head_node_additional_args", "--num-cpus=0"},
                         {"distribution.worker_node_additional_args", "--num-gpus=1"}};
  env = environment(job, 0, nodes);
  CHECK(env.at("RAY_ADDRESS") == "[fd00::1]:6379");
  CHECK(env.at("MUSTER_RAY_HEAD_ARGS") ==
        "--port=6379 --dashboard-host=127.0.0.1 --dashboard-port=8265 --include-dashboard=true "
        "--num-cpus=0");
  CHECK(env.at("MUSTER_RAY_WORKER_ARGS") == "--num-gpus=1");
  job.spec().recorded["distribution.address"] = "head:1";
  env = environment(job, 0, nodes);
  CHECK(env.at("RAY_ADDRESS") == "head:1");
  CHECK(!env.count("MUSTER_RAY_NODES"));
  job.spec().environment_variables["RAY_ADDRESS"] = "mine:2";
  CHECK(environment(job, 0, nodes).at("RAY_ADDRESS") == "mine:2");
}

TEST_CASE("without a distribution there are node variables only") {
  JobBuilder job = a_job().without_distribution();
  const auto env = environment(job, 1);
  CHECK(env.at("NODE_RANK") == "1");
  CHECK(!env.count("MASTER_ADDR"));
  CHECK(!env.count("OMPI_COMM_WORLD_RANK"));
  CHECK(!env.count("TF_CONFIG"));
}

TEST_CASE("other families can be asked for") {
  JobBuilder job = a_job().ranks_per_node(2);
  job.spec().muster.env_export = {"ompi", "slurm"};
  const auto env = environment(job, 3);
  CHECK(env.at("OMPI_COMM_WORLD_RANK") == "3");
  CHECK(env.at("SLURM_PROCID") == "3");
  CHECK(env.at("SLURM_LOCALID") == "1");
  CHECK(env.at("SLURM_NODELIST") == "h01,h02");
}

TEST_CASE("the job's own variables win, and its master_port is used as it is") {
  JobBuilder job = a_job();
  job.spec().muster.master_port = 6105;
  job.spec().environment_variables = {
      {"RANK", "mine"}, {"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "7"}, {"PYTHONUNBUFFERED", ""}};
  const auto env = environment(job, 1);
  CHECK(env.at("OMP_NUM_THREADS") == "7");
  CHECK(env.at("PYTHONUNBUFFERED") == "");
  CHECK(env.at("RANK") == "mine");
  CHECK(env.at("NCCL_DEBUG") == "INFO");
  CHECK(env.at("MASTER_PORT") == "6105");
}

TEST_CASE("more ranks than a node has processors have one thread each") {
  JobBuilder job = a_job().ranks_per_node(20);
  CHECK(environment(job, 0).at("OMP_NUM_THREADS") == "1");
}

TEST_CASE("a preemptible job says that its nodes are not dedicated") {
  JobBuilder job = a_job();
  job.spec().muster.preemptible = true;
  CHECK(environment(job, 0).at("AZ_BATCH_NODE_IS_DEDICATED") == "false");
}

TEST_CASE("nodes with different numbers of GPUs tell their ranks so") {
  JobBuilder job = a_job().ranks_by_gpus();
  job.spec().muster.env_export = {"ompi"};
  const auto of_rank = [&](int rank) { return environment(job, rank, two_nodes, {3, 1}); };
  CHECK(of_rank(2).at("WORLD_SIZE") == "4");
  CHECK(of_rank(2).at("LOCAL_WORLD_SIZE") == "3");
  CHECK(of_rank(2).at("LOCAL_RANK") == "2");
  CHECK(of_rank(2).at("NODE_RANK") == "0");
  CHECK(of_rank(3).at("LOCAL_WORLD_SIZE") == "1");
  CHECK(of_rank(3).at("LOCAL_RANK") == "0");
  CHECK(of_rank(3).at("NODE_RANK") == "1");
  CHECK(of_rank(3).at("OMPI_COMM_WORLD_LOCAL_SIZE") == "1");
  CHECK(of_rank(3).at("OMPI_COMM_WORLD_SIZE") == "4");
}

TEST_CASE("one rank alone waits for a debugger, in seconds") {
  JobBuilder job = a_job().ranks_per_node(2);
  CHECK_FALSE(environment(job, 3).contains("MUSTER_DEBUG_WAIT"));
  job.spec().muster.other = {{"debug.rank", "3"}, {"debug.wait", "10m"}};
  CHECK(environment(job, 3).at("MUSTER_DEBUG_WAIT") == "600");
  CHECK_FALSE(environment(job, 0).contains("MUSTER_DEBUG_WAIT"));
}

TEST_CASE("ranks see the first GPUs of a node where the job says how many, else all") {
  JobBuilder job = a_job();
  CHECK(!environment(job, 0).count("CUDA_VISIBLE_DEVICES"));
  job.gpus_per_node(3);
  CHECK(environment(job, 0).at("CUDA_VISIBLE_DEVICES") == "0,1,2");
  CHECK(environment(job, 1).at("CUDA_VISIBLE_DEVICES") == "0,1,2");
  job.gpus_per_node(0);
  CHECK(environment(job, 0).at("CUDA_VISIBLE_DEVICES") == "");
  job.spec().environment_variables = {{"CUDA_VISIBLE_DEVICES", "7"}};
  CHECK(environment(job, 0).at("CUDA_VISIBLE_DEVICES") == "7");
}

TEST_CASE("a rank of an elastic job has a port to lead at, beside the one to meet at") {
  JobBuilder job = a_job().elastic(1, 2).ranks_per_node(2);
  const std::vector<NodeFacts> nodes{{NodeId{"h01"}, "10.0.0.1", 8, {20001, 20002, 20003}},
                                     {NodeId{"h02"}, "10.0.0.2", 8, {20001, 20002}}};
  CHECK(environment(job, 1, nodes).at("MUSTER_MEMBER_PORT") == "20002");
  CHECK(environment(job, 1, nodes).at("MASTER_PORT") == "20003");
  CHECK(environment(job, 2, nodes).at("MUSTER_MEMBER_PORT") == "20001");
  JobBuilder fixed = a_job().ranks_per_node(2);
  CHECK(environment(fixed, 1, nodes).count("MUSTER_MEMBER_PORT") == 0);
}

TEST_CASE("a rank that joins sees the members and its own node, and who leads them") {
  JobBuilder job = a_job().elastic(1, 4).ranks_per_node(2);
  job.spec().muster.env_export = {"slurm"};
  const std::vector<NodeFacts> nodes{{NodeId{"h01"}, "10.0.0.1", 8, {20001, 20002, 20009}},
                                     {NodeId{"h02"}, "10.0.0.2", 8, {20003, 20004}},
                                     {NodeId{"h03"}, "10.0.0.3", 8, {20005, 20006}}};
  const std::vector<int> processes{2, 2, 2};
  const JobId id{"train"};
  const Joiner joiner{2, {{2}, {3}}};  // h01 has left
  const GangVariables gang(job.spec(), id, AttemptId{0}, nodes, processes, joiner);
  const Environment shared = gang.shared(), own = gang.own(RankId{5});
  CHECK(shared.at("WORLD_SIZE") == "4");
  CHECK(shared.at("MASTER_ADDR") == "10.0.0.2");
  CHECK(shared.at("MASTER_PORT") == "20003");
  CHECK(shared.at("AZ_BATCH_HOST_LIST") == "10.0.0.2,10.0.0.3");
  CHECK(shared.at("CCP_NODES") == "2 10.0.0.2 8 10.0.0.3 8");
  CHECK(shared.at("SLURM_JOB_NODELIST") == "h02,h03");
  CHECK(shared.at("SLURM_NTASKS") == "4");
  CHECK(own.at("RANK") == "5");
  CHECK(own.at("LOCAL_RANK") == "1");
  CHECK(own.at("LOCAL_WORLD_SIZE") == "2");
  CHECK(own.at("NODE_RANK") == "2");
  CHECK(own.at("AZ_BATCH_IS_CURRENT_NODE_MASTER") == "false");
  CHECK(own.at("MUSTER_MEMBER_PORT") == "20006");
  const Joiner beside{2, {{0}, {1}, {2}, {3}}};
  const GangVariables all(job.spec(), id, AttemptId{0}, nodes, processes, beside);
  CHECK(all.shared().at("WORLD_SIZE") == "6");
  CHECK(all.shared().at("MASTER_PORT") == "20009");
}
