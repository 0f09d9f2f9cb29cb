// The supervisor as a program of its own. In place of the controller that it starts stands one that
// does as the file `script` of its state directory says, a word a life, the last word again and
// again: `serve` until it is told to end, `sulk` the same and end with an error, `end` or `die`
// once it serves, or a code to end with before. Every life adds a line to the file `lives`: its
// process and its idle limit.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/controller/supervisor.h"
#include "launcher/os/read_file.h"

using namespace muster;

namespace {

constexpr unsigned life_limit_s = 60;
constexpr std::size_t most_lives = 30;

// A test that went wrong leaves nobody behind.
[[noreturn]] void end_all(int) {
  ::kill(::getppid(), SIGKILL);
  ::_exit(1);
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// What the supervisor left for its own sake must not reach the controller.
bool is_undisturbed() {
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  struct sigaction pipe {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  return ::sigismember(&blocked, SIGTERM) == 0 && ::sigismember(&blocked, SIGCHLD) == 0 &&
         pipe.sa_handler == SIG_DFL;
}

int serve(const Home& home, int line, const std::string& word) {
  const auto lock = take_lock_file(home.lock());
  if (!lock || !*lock) return another_controller_serves;
  sigset_t told;
  ::sigemptyset(&told);
  ::sigaddset(&told, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &told, nullptr);  // before anybody sees that it serves
  std::ofstream(home.socket()).close();
  if (::write(line, &controller_serves, 1) != 1) return 2;
  ::close(line);
  if (word == "die") return 5;
  int signal = 0;
  if (word != "end") ::sigwait(&told, &signal);
  ::unlink(home.socket().c_str());
  return word == "sulk" ? 6 : 0;
}

int one_life(const Home& home, int line, const std::string& idle_limit) {
  ::signal(SIGALRM, end_all);
  ::alarm(life_limit_s);
  const auto script = lines_of(home.root / "script");
  const std::size_t life = lines_of(home.root / "lives").size();
  if (script.empty() || life > most_lives) end_all(0);
  std::ofstream(home.root / "lives", std::ios::app)
      << std::to_string(::getpid()) + " " + idle_limit + "\n";
  const std::string word = script[std::min(life, script.size() - 1)];
  if (word.find_first_not_of("0123456789") == word.npos) return std::stoi(word);
  return is_undisturbed() ? serve(home, line, word) : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const Home home = Home::from_environment();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 5 && words[0] == "controller" && words[1] == "--supervised" &&
      words[3] == "--idle-limit") {
    return one_life(home, std::stoi(words[2]), words[4]);
  }
  ControllerOptions options;
  options.home = home;
  options.idle_limit_s = 7;
  return words.empty() ? supervisor_main(options) : 4;
}
