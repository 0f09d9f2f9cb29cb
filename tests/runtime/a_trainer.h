// The real muster-train as a child process, alone or under the real mpirun.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/runtime/folder.h"

namespace muster::test {

struct Ended {
  int code = 0;  // exit code, or 128 + signal
  std::string output;
};

// muster-train in a folder of its own, with a clean environment but for what is given.
class Trainer {
 public:
  explicit Trainer(const Folder& folder) : folder_(folder) {
    environment_ = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                    {"OMP_NUM_THREADS", "1"},
                    {"TMPDIR", "/tmp"},
                    {"HOME", folder.path()},  // mpirun of Open MPI 5 does not start without one
                    {"PATH", std::getenv("PATH")},
                    // Open MPI itself leaks at exit.
                    {"ASAN_OPTIONS", "detect_leaks=0"}};
    // scripts/mutate chooses a fault by them, of this program and of those that it starts.
    for (const char* name : {"MUSTER_FAULT", "MUSTER_FAULTS_MET"}) {
      if (const char* value = std::getenv(name)) with(name, value);
    }
  }

  Trainer& with(const std::string& name, const std::string& value) {
    environment_[name] = value;
    return *this;
  }

  // Every rank is started as "/bin/sh -c SCRIPT muster-train OPTIONS…" and ends with exec "$0"
  // "$@".
  Trainer& through(const std::string& script) {
    wrapper_ = {"/bin/sh", "-c", script};
    return *this;
  }

  // Starts ranks > 0 under mpirun, ranks == 0 as a plain process.
  pid_t start(int ranks, const std::vector<std::string>& options) {
    std::vector<std::string> words;
    if (ranks > 0) {
      words = {"mpirun", "-n", std::to_string(ranks), "--oversubscribe"};
    }
    words.insert(words.end(), wrapper_.begin(), wrapper_.end());
    words.insert(words.end(), {MUSTER_TRAIN, "--layers", "1", "--width", "32", "--heads", "2",
                               "--context", "32"});
    if (std::find(options.begin(), options.end(), "--data") == options.end()) {
      words.insert(words.end(), {"--data", MUSTER_SOURCE_DIR "/tests/runtime"});
    }
    words.insert(words.end(), options.begin(), options.end());
    return start_words(std::move(words));
  }

  // muster-train with these words and nothing else.
  Ended run_alone(std::vector<std::string> words) {
    words.insert(words.begin(), MUSTER_TRAIN);
    words.insert(words.begin(), wrapper_.begin(), wrapper_.end());
    return wait(start_words(std::move(words)));
  }

  Ended wait(pid_t pid) {
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            content_of(folder_ / "output")};
  }

  Ended run(int ranks, const std::vector<std::string>& options) {
    return wait(start(ranks, options));
  }

 private:
  pid_t start_words(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> pairs;
    for (const auto& [name, value] : environment_) pairs.push_back(name + "=" + value);
    std::vector<char*> variables;
    for (std::string& pair : pairs) variables.push_back(pair.data());
    variables.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log = folder_ / "output";
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    REQUIRE(posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), variables.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  const Folder& folder_;
  std::vector<std::string> wrapper_;
  std::map<std::string, std::string> environment_;
};

inline std::string weights(const Folder& folder, const std::string& out) {
  return content_of(folder / (out + "/model.safetensors"));
}

// Polls a condition of another process, the only thing that can be waited for here.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace muster::test
