#include "scheduler/rank_variables.h"

#include "tests/catch.h"
#include "tests/scheduler/builders.h"

using namespace muster;
using namespace muster::test;

namespace {

const std::vector<NodeFacts> two_nodes{{NodeId{"h01"}, "10.0.0.1", 8, {20001}},
                                       {NodeId{"h02"}, "10.0.0.2", 16, {}}};

std::map<std::string, std::string> environment(JobBuilder& job, int rank,
                                               const std::vector<NodeFacts>& nodes = two_nodes) {
  return rank_variables(job.spec(), JobId{"train"}, AttemptId{2}, nodes, {},
                        RankId{rank});
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
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "20001"},
      {"MUSTER_ATTEMPT", "2"},
      {"MUSTER_EPOCH", "3"},
      {"MUSTER_JOB", "train"},
      {"NODE_RANK", "1"},
      {"RANK", "6"},
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
  job.spec().environment_variables = {{"RANK", "mine"}, {"NCCL_DEBUG", "INFO"}};
  const auto env = environment(job, 1);
  CHECK(env.at("RANK") == "mine");
  CHECK(env.at("NCCL_DEBUG") == "INFO");
  CHECK(env.at("MASTER_PORT") == "6105");
}

TEST_CASE("a preemptible job says that its nodes are not dedicated") {
  JobBuilder job = a_job();
  job.spec().muster.preemptible = true;
  CHECK(environment(job, 0).at("AZ_BATCH_NODE_IS_DEDICATED") == "false");
}

TEST_CASE("nodes with different numbers of GPUs tell their ranks so") {
  JobBuilder job = a_job().ranks_by_gpus();
  job.spec().muster.env_export = {"ompi"};
  const auto of_rank = [&](int rank) {
    return rank_variables(job.spec(), JobId{"train"}, AttemptId{2}, two_nodes, {3, 1},
                          RankId{rank});
  };
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
