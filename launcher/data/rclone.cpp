#include "launcher/data/rclone.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <nlohmann/json.hpp>

#include "launcher/data/secrets.h"
#include "launcher/os/child.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr std::size_t most_line_bytes = std::size_t{1} << 20;  // of a list: a name has 64 KiB
constexpr std::size_t most_error_bytes = 500;
constexpr std::string_view principal_mark = "service_principal_file = ";

// A file that has no name, which another process gets as /dev/fd/N.
Fd memory_file(const std::string& text) {
  Fd file(::memfd_create("muster", MFD_CLOEXEC));
  if (file && (!write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) != 0)) file.reset();
  return file;
}

// What rclone needs of our environment, and none of RCLONE_*, which would change what it does.
std::vector<std::string> own_environment() {
  std::vector<std::string> out;
  for (const char* name : {"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY",
                           "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}) {
    const std::string value = environment(name);
    if (!value.empty()) out.push_back(std::string(name) + "=" + value);
  }
  out.push_back("LC_ALL=C.UTF-8");
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

std::string dev_fd(const Fd& file) {
  return "/dev/fd/" + std::to_string(file.get());
}

std::vector<std::string> all_words(const RcloneRequest& request, const Fd& config,
                                   const Fd& files) {
  std::vector<std::string> words{"rclone"};
  words.insert(words.end(), request.words.begin(), request.words.end());
  // Three tries, as usual; each waits a minute for bytes, a quarter of one for a connection.
  for (const char* word :
       {"--use-json-log", "--stats=1s", "--stats-log-level=NOTICE", "--retries=3",
        "--low-level-retries=5", "--contimeout=15s", "--timeout=60s", "--no-unicode-normalization",
        "--use-server-modtime", "--config"}) {
    words.emplace_back(word);
  }
  words.push_back(dev_fd(config));
  if (files) words.insert(words.end(), {"--files-from-raw", dev_fd(files)});
  return words;
}

struct Started {
  pid_t pid = 0;
  Fd output;
  Fd log;
};

[[noreturn]] void become(const std::string& program, std::vector<char*> words,
                         std::vector<char*> variables, const std::array<int, 3>& ends,
                         const std::vector<int>& kept, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  ::dup2(ends[2], STDERR_FILENO);
  for (const int fd : kept) ::fcntl(fd, F_SETFD, 0);
  ::execve(program.c_str(), words.data(), variables.data());
  ::_exit(127);
}

Result<Started> start(const std::string& program, std::vector<std::string> words,
                      const std::vector<int>& kept) {
  auto output = make_pipe();
  auto log = make_pipe();
  if (!output || !log) return system_error("make a pipe");
  std::vector<std::string> variables = own_environment();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("start rclone");
  if (pid == 0) {
    become(program, pointers(words), pointers(variables),
           {0, output->write_end.get(), log->write_end.get()}, kept, parent);
  }
  return Started{pid, std::move(output->read_end), std::move(log->read_end)};
}

// Bytes that came, cut into lines.
class Lines {
 public:
  // False at the end.
  bool read(int fd, const std::function<void(std::string_view)>& take) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0) return errno == EINTR;
    if (count == 0) {
      if (!rest_.empty()) take(rest_);
      return false;
    }
    rest_.append(buffer.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest_.find('\n', begin)) != rest_.npos; begin = end + 1) {
      take(std::string_view(rest_).substr(begin, end - begin));
    }
    rest_.erase(0, begin);
    if (rest_.size() > most_line_bytes) rest_.resize(most_line_bytes);
    return true;
  }

 private:
  std::string rest_;
};

template <class T>
T number_in(const nlohmann::json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_number() ? found->get<T>() : T{};
}

}  // namespace

std::string rclone_program() {
  std::string path = environment("PATH") + ":/usr/local/bin:/usr/bin";
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view folder = take_until(rest, ':');
    const std::string program = std::string(folder) + "/rclone";
    if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

std::string no_rclone_text(const std::string& machine) {
  return "rclone, which reaches the datastore, is not installed on " + machine +
         "; install Debian's package 'rclone' there";
}

Result<Rclone> Rclone::begin(RcloneRequest request) {
  Rclone run;
  const std::string program = rclone_program();
  run.request_ = std::move(request);
  run.secrets_ = secrets_in_config(run.request_.config);
  if (program.empty()) return run;
  std::string text = std::exchange(run.request_.config, {});
  Fd principal;
  if (const auto at = text.find(principal_mark); at != text.npos) {
    const std::size_t begin = at + principal_mark.size();
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    principal = memory_file(text.substr(begin, end - begin));
    text.replace(begin, end - begin, dev_fd(principal));
  }
  const Fd config = memory_file(text);
  Fd files;
  if (!run.request_.files.empty()) files = memory_file(run.request_.files);
  const bool has_files = run.request_.files.empty() || files;
  if (!config || !has_files) return system_error("make a file in memory");
  std::vector<int> kept{config.get()};
  if (files) kept.push_back(files.get());
  if (principal) kept.push_back(principal.get());
  auto started = start(program, all_words(run.request_, config, files), kept);
  if (!started) return started.error();
  run.pid_ = started->pid;
  run.output_ = std::move(started->output);
  run.log_ = std::move(started->log);
  return run;
}

Rclone::~Rclone() {
  if (pid_ <= 0 || (!output_ && !log_)) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Rclone::take_log(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  if (const auto stats = json.find("stats"); stats != json.end() && stats->is_object()) {
    if (request_.on_progress) {
      request_.on_progress({number_in<std::int64_t>(*stats, "bytes"),
                            number_in<std::int64_t>(*stats, "transfers"),
                            number_in<double>(*stats, "speed")});
    }
    return;
  }
  const auto level = json.find("level");
  const auto message = json.find("msg");
  if (level == json.end() || message == json.end() || !message->is_string()) return;
  if (*level != "error" && *level != "fatal" && *level != "critical") return;
  std::string text = message->get<std::string>();
  if (const auto object = json.find("object"); object != json.end() && object->is_string()) {
    text = object->get<std::string>() + ": " + text;
  }
  text = redacted(text, secrets_);
  // The first says most: the rest are summaries of it.
  if (last_error_.empty()) last_error_ = shortened(without_controls(text), most_error_bytes);
}

std::optional<RcloneFailure> Rclone::wait() {
  if (pid_ <= 0) return RcloneFailure{"rclone is not installed", true, false};
  Lines output, log;
  const auto take_line = [this](std::string_view line) {
    if (request_.on_line) request_.on_line(line);
  };
  while (output_ || log_) {
    std::array<pollfd, 2> ends{{{output_.get(), POLLIN, 0}, {log_.get(), POLLIN, 0}}};
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) break;
    if (ends[0].revents != 0 && !output.read(output_.get(), take_line)) output_.reset();
    if (ends[1].revents != 0 &&
        !log.read(log_.get(), [this](std::string_view line) { take_log(line); })) {
      log_.reset();
    }
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  // rclone's: 3 a directory and 4 a file that is not there.
  RcloneFailure failure{last_error_, false, code == 3 || code == 4};
  if (failure.message.empty()) {
    failure.message =
        code != 0 ? "rclone ended with exit code " + std::to_string(code) : "rclone was killed";
  }
  return failure;
}

}  // namespace muster
