// Behind scripts/checkpoint-torture: harms a tiny training run in one way, many times, and looks at
// what is left.
//
//   checkpoint_torture MUSTER-TRAIN SHIM DIRECTORY kills|losses|full|flips|cuts COUNT SEED
//
// Prints lines "name value unit goal". What the run that was left alone held after each step is the
// judge: the newest checkpoint must read back whole and hold exactly that.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/verify.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "tests/runtime/lost_writes.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t long_run_steps = 120;
constexpr std::uint64_t short_run_steps = 40;
// Of a life after the trainer has said its first line; the logarithm is drawn evenly, so that all
// that is quick and all that is slow is hit, on fast machines and on slow ones.
constexpr double shortest_life_us = 500;
constexpr double longest_life_us = 500000;
constexpr std::uint64_t most_operations = 1500;

struct Life {
  std::uint64_t steps = long_run_steps;
  std::string keep = "3";
  std::string mode = "background";
  std::string writes = "buffered";
  std::uint64_t step_delay_ms = 0;
  std::map<std::string, std::string> environment = {};
  std::optional<unsigned> kill_after_us = {};
};

[[noreturn]] void give_up(const std::string& complaint) {
  std::fprintf(stderr, "checkpoint_torture: %s\n", complaint.c_str());
  std::exit(2);
}

class Torture {
 public:
  Torture(std::string train, std::string shim, std::string directory, std::uint64_t seed)
      : train_(std::move(train)),
        shim_(std::move(shim)),
        directory_(fs::canonical(directory).string()),
        random_(seed) {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += std::to_string(i) + ": the quick brown fox jumps\n";
    put(directory_ + "/text.txt", text);
    live_calmly(short_run_steps);
    live_calmly(long_run_steps);
    for (const FoundCheckpoint& found : search_checkpoints(root()).usable) {
      const auto manifest = read_manifest(found.path);
      if (!manifest) give_up(manifest.reason());
      calm_hash_[found.step] = manifest.value().state_hash;
    }
    if (calm_hash_.size() != long_run_steps) give_up("the reference run lacks checkpoints");
  }

  // So many that cut a save short: the others count for nothing but their number.
  void kills(std::uint64_t count) {
    begin_anew();
    while (in_save_ < count && done_ < 20 * count) {
      Life life = any_life({"buffered", "threads", "io_uring"});
      life.kill_after_us = draw_life_us();
      const std::set<std::string> before = remains();
      const int status = live(life);
      if (!WIFSIGNALED(status)) {
        end_round(life, status);
        continue;
      }
      ++done_;
      const std::set<std::string> after = remains();
      in_save_ += !std::includes(before.begin(), before.end(), after.begin(), after.end());
      judge();
    }
    end_round(Life{}, live(Life{}));
    report("kills", "kills");
    figure("kills_in_a_save", in_save_, "kills", ">=" + std::to_string(count));
  }

  // io_uring passes the shim by.
  void losses(std::uint64_t count) {
    begin_anew();
    while (done_ < count) {
      Life life = any_life({"buffered", "threads"});
      const std::string log = directory_ + "/operations";
      fs::remove(log);
      life.environment = {{"LD_PRELOAD", shim_},
                          {shim_root, root()},
                          {shim_log, log},
                          {shim_end, std::to_string(1 + draw(most_operations))}};
      LostWrites disk(root());
      const int status = live(life);
      if (!WIFSIGNALED(status)) {
        end_round(life, status);
        continue;
      }
      ++done_;
      disk.replay(content_of(log));
      fs::remove_all(root());
      disk.leave(root(), 0.25 * static_cast<double>(draw(4)), random_);
      judge();
    }
    end_round(Life{}, live(Life{}));
    report("power_losses", "losses");
  }

  void full(std::uint64_t count) {
    std::uint64_t refused = 0;
    for (; done_ < count; ++done_) {
      begin_anew();
      Life life = any_life({"buffered", "threads"});
      life.steps = short_run_steps;
      life.environment = {{"LD_PRELOAD", shim_},
                          {shim_root, root()},
                          {shim_full, std::to_string(draw(short_run_steps * 120000)) + " " +
                                          std::to_string(1 + draw(8))}};
      int status = live(life);
      judge();
      if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {  // not even the log could be written
        ++refused;
        life.environment.clear();
        status = live(life);
        judge();
      }
      end_round(life, status);
    }
    report("full_disks", "runs");
    figure("full_disks_at_start", refused, "runs", "-");
  }

  void flips(std::uint64_t count) {
    const std::string path = search_checkpoints(root()).newest()->path;
    const std::vector<std::string> files = files_of(path);
    if (!loads(path)) give_up(path + " does not load");
    for (; done_ < count; ++done_) {
      const std::string& file = files[draw(files.size() - 1)];
      const std::uint64_t at = draw(fs::file_size(file) - 1);
      const int bit = 1 << draw(7);
      flip(file, at, bit);
      const bool is_cert = file.ends_with(checkpoint_cert_name);
      silent_ += is_cert ? read_certificate(path).ok() : loads(path);
      flip(file, at, bit);
    }
    if (!loads(path)) give_up(path + " does not load any more");
    figure("bit_flips", done_, "flips", ">=" + std::to_string(count));
    figure("bit_flips_silent", silent_, "loads", "<=0");
  }

  void cuts() {
    const CheckpointSearch search = search_checkpoints(root());
    const std::string path = search.usable[0].path;
    for (const std::string& file : files_of(path)) {
      const std::string whole = content_of(file);
      for (std::size_t length = 0; length < whole.size(); length += 4096) {
        put(file, whole.substr(0, length));
        ++done_;
        if (file.ends_with(checkpoint_cert_name)) {
          silent_ += read_certificate(path).ok();
          continue;
        }
        const CheckpointSearch now = search_checkpoints(root());
        silent_ += now.newest() == nullptr || now.newest()->step != search.usable[1].step ||
                   now.rejected.size() != 1 || now.rejected[0].reason.empty();
      }
      put(file, whole);
    }
    figure("cuts_at_4_KiB", done_, "cuts", ">=1");
    figure("cuts_not_found", silent_, "cuts", "<=0");
  }

 private:
  std::string root() const { return directory_ + "/ckpt"; }
  std::string output() const { return directory_ + "/output"; }
  std::string weights() const { return content_of(directory_ + "/out/model.safetensors"); }

  std::uint64_t draw(std::uint64_t highest) {
    return std::uniform_int_distribution<std::uint64_t>(0, highest)(random_);
  }

  unsigned draw_life_us() {
    std::uniform_real_distribution<double> logarithms(std::log(shortest_life_us),
                                                      std::log(longest_life_us));
    return static_cast<unsigned>(std::exp(logarithms(random_)));
  }

  Life any_life(const std::vector<std::string>& writes) {
    Life life;
    life.mode = draw(2) == 0 ? "blocking" : "background";
    life.writes = writes[draw(writes.size() - 1)];
    if (life.mode == "background") life.step_delay_ms = 2;  // or it ends before a save does
    return life;
  }

  void begin_anew() {
    fs::remove_all(root());
    fs::remove_all(directory_ + "/out");
    fs::create_directories(root());
    told_ = 0;
  }

  void live_calmly(std::uint64_t steps) {
    begin_anew();
    Life life;
    life.steps = steps;
    life.keep = "1000000";
    life.mode = "blocking";  // the other one leaves out steps
    const int status = live(life);
    if (status != 0) give_up("the reference run failed:\n" + content_of(output()));
    calm_weights_[steps] = weights();
  }

  // Starts a trainer and waits for its end; the wait status.
  int live(const Life& life) {
    const std::vector<std::string> words{train_,
                                         "--data",
                                         directory_ + "/text.txt",
                                         "--out",
                                         directory_ + "/out",
                                         "--checkpoint-dir",
                                         root(),
                                         "--resume",
                                         "auto",
                                         "--layers",
                                         "1",
                                         "--width",
                                         "16",
                                         "--heads",
                                         "2",
                                         "--context",
                                         "16",
                                         "--batch",
                                         "4",
                                         "--checkpoint-every",
                                         "1",
                                         "--log-every",
                                         "100",
                                         "--steps",
                                         std::to_string(life.steps),
                                         "--keep",
                                         life.keep,
                                         "--checkpoint-mode",
                                         life.mode,
                                         "--checkpoint-writes",
                                         life.writes};
    const pid_t child = start(words, life.environment);
    if (life.kill_after_us) {
      await_first_line(child);
      // The moment is the random input, not a wait for something.
      ::usleep(*life.kill_after_us);
      ::kill(child, SIGKILL);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child) give_up("waitpid failed");
    hear();
    return status;
  }

  pid_t start(std::vector<std::string> words, const std::map<std::string, std::string>& variables) {
    std::vector<std::string> pairs{"OMP_NUM_THREADS=1", "PATH=" + std::string(std::getenv("PATH"))};
    for (const auto& [name, value] : variables) pairs.push_back(name + "=" + value);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output().c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    const int failed = ::posix_spawn(&pid, words[0].c_str(), &actions, nullptr,
                                     pointers(words).data(), pointers(pairs).data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) give_up("cannot start " + words[0]);
    return pid;
  }

  // The first line, or the end, of another process can only be polled for.
  void await_first_line(pid_t child) const {
    siginfo_t ended{};
    while (fs::file_size(output()) == 0) {
      if (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0)
        return;
      if (ended.si_pid != 0) return;
      ::usleep(100);
    }
  }

  // The newest checkpoint of which the trainer said that it is committed.
  void hear() {
    std::ifstream lines(output());
    for (std::string line; std::getline(lines, line);) {
      const std::string word = "checkpoint ";
      if (!line.starts_with(word + "s0")) continue;
      const std::string name =
          line.substr(word.size(), line.find_first_of(", ", word.size()) - word.size());
      if (const auto parsed = parse_checkpoint_directory_name(name)) {
        told_ = std::max(told_, parsed->step);
      }
    }
  }

  // What a save, a certificate or a deletion that was cut short leaves behind.
  std::set<std::string> remains() const {
    std::set<std::string> found;
    const auto is_remains = [](const fs::path& path) {
      const std::string name = path.filename().string();
      return name.starts_with(checkpoint_trash_prefix) || name.ends_with(".tmp");
    };
    for (const auto& entry : fs::directory_iterator(root())) {
      if (is_remains(entry.path())) found.insert(entry.path().string());
      if (!entry.is_directory()) continue;
      if (!fs::exists(entry.path() / checkpoint_manifest_name)) {
        found.insert(entry.path().string());
      }
      for (const auto& file : fs::directory_iterator(entry.path())) {
        if (is_remains(file.path())) found.insert(file.path().string());
      }
    }
    return found;
  }

  // What is left must be loadable, as new as was told, and hold what the reference run held.
  void judge() {
    const CheckpointSearch search = search_checkpoints(root());
    const FoundCheckpoint* newest = search.newest();
    if (newest == nullptr || newest->step < told_) {
      if (newest == nullptr && told_ == 0) return;
      ++missing_;
      std::fprintf(stderr, "step %llu was told, %s is the newest\n",
                   static_cast<unsigned long long>(told_),
                   newest == nullptr ? "nothing" : newest->directory.c_str());
      return;
    }
    told_ = newest->step;
    for (const FoundCheckpoint& found : search.usable) {
      const CheckpointVerdict verdict = verify_checkpoint(found.path, {});
      const auto manifest = read_manifest(found.path);
      if (verdict.good() && manifest.value().state_hash == calm_hash_[found.step]) continue;
      ++silent_;
      std::fprintf(stderr, "%s is wrong: %s\n", found.path.c_str(),
                   verdict.good() ? "another state" : verdict.damage[0].what.c_str());
    }
    if (search.newest(CheckpointGrade::certified) != nullptr) ++certified_seen_;
  }

  void end_round(const Life& life, int status) {
    judge();
    ++rounds_;
    const bool equal = status == 0 && weights() == calm_weights_[life.steps];
    equal_ += equal;
    if (!equal) std::fprintf(stderr, "a run ended otherwise:\n%s", content_of(output()).c_str());
    begin_anew();
  }

  void report(const std::string& name, const std::string& unit) const {
    figure(name, done_, unit, ">=1");
    figure(name + "_wrong_values", silent_, "checkpoints", "<=0");
    figure(name + "_without_checkpoint", missing_, unit, "<=0");
    figure(name + "_with_certificate", certified_seen_, unit, "-");
    figure(name + "_runs", rounds_, "runs", ">=1");
    figure(name + "_equal_weights", equal_, "runs", ">=" + std::to_string(rounds_));
  }

  static void figure(const std::string& name, std::uint64_t value, const std::string& unit,
                     const std::string& goal) {
    std::printf("%s %llu %s %s\n", name.c_str(), static_cast<unsigned long long>(value),
                unit.c_str(), goal.c_str());
  }

  static std::vector<std::string> files_of(const std::string& path) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path().string());
    return files;
  }

  static void flip(const std::string& path, std::uint64_t at, int bit) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ bit));
    if (!file) give_up(path + " cannot be changed");
  }

  // Whether every value can be read, and they are those of the manifest.
  static bool loads(const std::string& path) {
    const auto manifest = read_manifest(path);
    if (!manifest) return false;
    CheckpointReader reader(path, manifest.value());
    std::vector<float> values(manifest.value().flat.numel);
    std::uint64_t hash = 0;
    for (std::size_t plane = 0; plane < flat_planes; ++plane) {
      if (!reader.read(plane, 0, values)) return false;
      hash += plane_hash(plane, 0, values);
    }
    return hash == manifest.value().state_hash;
  }

  const std::string train_;
  const std::string shim_;
  const std::string directory_;
  std::mt19937_64 random_;
  std::map<std::uint64_t, std::uint64_t> calm_hash_;   // by step
  std::map<std::uint64_t, std::string> calm_weights_;  // by steps of the run
  std::uint64_t told_ = 0;  // the highest step of this run that is known to be safe
  std::uint64_t done_ = 0;
  std::uint64_t in_save_ = 0;
  std::uint64_t silent_ = 0;
  std::uint64_t missing_ = 0;
  std::uint64_t certified_seen_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t equal_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) give_up("see the head of its source");
  const std::string kind = argv[4];
  const std::uint64_t count = std::strtoull(argv[5], nullptr, 10);
  Torture torture(argv[1], argv[2], argv[3], std::strtoull(argv[6], nullptr, 10));
  if (kind == "kills") torture.kills(count);
  if (kind == "losses") torture.losses(count);
  if (kind == "full") torture.full(count);
  if (kind == "flips") torture.flips(count);
  if (kind == "cuts") torture.cuts();
}
