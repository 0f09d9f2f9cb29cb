#include "launcher/data/rclone.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <nlohmann/json.hpp>

#include "launcher/os/child.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/spelling.h"
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

std::string dev_fd(const Fd& file) {
  return "/dev/fd/" + std::to_string(file.get());
}

// What rclone needs of our environment, and none of RCLONE_*, which would change what it does.
std::vector<std::string> own_environment() {
  std::vector<std::string> out{"LC_ALL=C.UTF-8"};
  for (const char* name : {"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY",
                           "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}) {
    const std::string value = environment(name);
    if (!value.empty()) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// A child that ends with this process and has the files of `kept`.
pid_t start(const std::string& program, std::vector<std::string> words, const PipeEnds& output,
            const PipeEnds& log, std::initializer_list<const Fd*> kept) {
  std::vector<std::string> variables = own_environment();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(output.write_end.get(), STDOUT_FILENO);
  ::dup2(log.write_end.get(), STDERR_FILENO);
  for (const Fd* file : kept) ::fcntl(file->get(), F_SETFD, 0);
  ::execve(program.c_str(), pointers(words).data(), pointers(variables).data());
  ::_exit(127);
}

// Bytes that come, cut into lines.
struct LinePipe {
  Fd end;
  std::function<void(std::string_view)> take;
  std::string rest{};

  void read() {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(end.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) end.reset();
    if (count == 0 && !rest.empty()) take(rest);
    if (count <= 0) return;
    rest.append(buffer.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t at = 0; (at = rest.find('\n', begin)) != rest.npos; begin = at + 1) {
      take(std::string_view(rest).substr(begin, at - begin));
    }
    rest.erase(0, begin);
    if (rest.size() > most_line_bytes) rest.resize(most_line_bytes);
  }
};

// A line of rclone's log, by its keys.
struct RcloneStats {
  std::int64_t bytes = 0;
  double speed = 0;

  MUSTER_FIELDS(bytes, speed)
};
struct RcloneLine {
  std::string level, msg, object;
  std::optional<RcloneStats> stats;

  MUSTER_FIELDS(level, msg, object, stats)
};

// Gives on the progress; the error that it tells, if it is one.
std::string error_in(std::string_view text, const RcloneRequest& request) {
  RcloneLine line;
  try {
    read_json(Json::parse(text), line);
  } catch (const std::exception&) {
    // What it says of its arguments, and as its last words: "2026/11/28 17:32:09 Failed to …".
    constexpr std::size_t time_bytes = 20;
    if (text.size() > time_bytes && text[4] == '/') text.remove_prefix(time_bytes);
    const bool is_error = text.starts_with("Error: ") || text.starts_with("Failed to ");
    if (!is_error) return {};
    line.level = "error";
    line.msg = std::string(text);
  }
  if (line.stats) {
    if (request.on_progress) request.on_progress(line.stats->bytes, line.stats->speed);
    return {};
  }
  if (line.level != "error" && line.level != "fatal" && line.level != "critical") return {};
  if (!line.object.empty()) line.msg = line.object + ": " + line.msg;
  const std::string told = redacted(line.msg, secrets_in_config(request.config));
  return shortened(without_controls(told), most_error_bytes);
}

// Whether there are any; one that leads elsewhere than to a file below `root`. What it leads to may
// be a secret of who copies, or a circle.
std::pair<bool, std::string> links_below(const std::filesystem::path& root,
                                         const std::vector<std::string>& only) {
  namespace fs = std::filesystem;
  std::error_code failure, dangling;
  const std::string inside = fs::canonical(root, failure).string() + "/";
  std::pair<bool, std::string> found;
  const auto look = [&](const fs::path& path) {
    if (!fs::is_symlink(path, dangling) || !found.second.empty()) return;
    found.first = true;
    const fs::path target = fs::canonical(path, dangling);
    const bool is_file = !dangling && fs::is_regular_file(target, dangling);
    const bool is_inside = is_file && target.string().starts_with(inside);
    if (!is_inside) found.second = path.lexically_relative(root).string();
  };
  for (const std::string& path : only) look(root / path);
  for (fs::recursive_directory_iterator entry(root, failure), end;
       only.empty() && !failure && entry != end; entry.increment(failure)) {
    look(entry->path());
  }
  return found;
}

}  // namespace

std::string RcloneFailure::text(const std::string& attempted, const std::string& machine) const {
  if (!message.empty()) return attempted + ": " + message;
  return "rclone, which reaches the datastore, is not installed on " + machine +
         "; install Debian's package 'rclone' there";
}

std::string rclone_program() {
  const std::string path = environment("PATH") + ":/usr/local/bin:/usr/bin";
  for (const std::string_view folder : words_in(path, ":")) {
    const std::string program = std::string(folder) + "/rclone";
    if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

std::optional<RcloneFailure> run_rclone(const RcloneRequest& request) {
  const std::string program = rclone_program();
  if (program.empty()) return RcloneFailure{};
  std::string config = request.config;
  Fd principal;
  if (const auto at = config.find(principal_mark); at != config.npos) {
    const std::size_t begin = at + principal_mark.size();
    const std::size_t end = std::min(config.find('\n', begin), config.size());
    principal = memory_file(config.substr(begin, end - begin));
    config.replace(begin, end - begin, dev_fd(principal));
  }
  const Fd settings = memory_file(config);
  const Fd files = memory_file(request.files);
  auto output = make_pipe();
  auto log = make_pipe();
  if (!settings || !files || !output || !log) {
    return RcloneFailure{system_error("make a pipe or a file in memory").message};
  }
  std::vector<std::string> words{"rclone"};
  words.insert(words.end(), request.words.begin(), request.words.end());
  // Three tries, as usual; each waits a minute for bytes, a quarter of one for a connection.
  words.insert(words.end(), {"--use-json-log", "--stats=1s", "--stats-log-level=NOTICE",
                             "--retries=3", "--low-level-retries=5", "--contimeout=15s",
                             "--timeout=60s", "--no-unicode-normalization", "--use-server-modtime",
                             "--config", dev_fd(settings)});
  if (!request.files.empty()) words.insert(words.end(), {"--files-from-raw", dev_fd(files)});
  const pid_t pid =
      start(program, std::move(words), *output, *log, {&settings, &files, &principal});
  if (pid < 0) return RcloneFailure{system_error("start rclone").message};
  output->write_end.reset();
  log->write_end.reset();

  RcloneFailure failure;
  std::array<LinePipe, 2> pipes{{{std::move(output->read_end),
                                  [&](std::string_view line) {
                                    if (request.on_line) request.on_line(line);
                                  }},
                                 {std::move(log->read_end), [&](std::string_view line) {
                                    // The first says most: the rest are summaries of it.
                                    const std::string error = error_in(line, request);
                                    if (failure.message.empty()) failure.message = error;
                                  }}}};
  while (pipes[0].end || pipes[1].end) {
    std::array<pollfd, 2> ends{{{pipes[0].end.get(), POLLIN, 0}, {pipes[1].end.get(), POLLIN, 0}}};
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].revents != 0) pipes[i].read();
    }
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  failure.is_not_found = code == 3 || code == 4;  // rclone's: no such directory, no such file
  if (failure.message.empty()) {
    failure.message =
        code != 0 ? "rclone ended with exit code " + std::to_string(code) : "rclone was killed";
  }
  return failure;
}

Result<std::vector<DataFile>> list_files(const std::string& config, const std::string& place,
                                         const std::string& attempted, const std::string& machine) {
  const auto failed = [&](const std::string& why) { return Error{attempted + ": " + why}; };
  std::vector<DataFile> files;
  RcloneRequest request{{"lsjson", place, "-R", "--files-only", "--no-mimetype"}, config};
  // Elsewhere it would read all the data.
  if (tells_hashes(config)) {
    request.words.insert(request.words.end(), {"--hash", "--hash-type=md5"});
  }
  Status read = Done{};
  request.on_line = [&](std::string_view line) {
    if (read && files.size() <= manifest_limit_files) read = read_listed(line, files);
  };
  const auto failure = run_rclone(request);
  // Of a part alone: what was listed is not all.
  const bool is_nothing = failure && failure->is_not_found && files.empty();
  if (failure && !is_nothing) return Error{failure->text(attempted, machine)};
  if (!read) return failed(read.error().message);
  if (files.size() > manifest_limit_files) {
    return failed("it has more than " + std::to_string(manifest_limit_files) +
                  " files; put them into larger files, or mount the store and use type: local");
  }
  if (auto ordered = put_in_order(files); !ordered) return failed(ordered.error().message);
  return files;
}

Result<DataManifest> list_place(const PlaceInStore& place, const Credentials& credentials,
                                const std::string& machine, bool may_be_empty) {
  const std::string attempted = "cannot list " +
                                quoted_text(place.path.empty() ? "/" : place.path) +
                                " of the datastore " + quoted_text(place.store.name);
  const auto config = rclone_config(place.store, credentials);
  if (!config) return Error{attempted + ": " + config.error().message};
  auto files = list_files(*config, rclone_place(place.store, place.path), attempted, machine);
  if (!files) return files.error();
  if (files->empty() && !may_be_empty) return Error{attempted + ": there is nothing"};
  return DataManifest{store_identity(place.store), root_of(place), std::move(*files)};
}

Status upload_tree(const std::filesystem::path& source, const PlaceInStore& place,
                   const Credentials& credentials, const std::string& machine,
                   const std::vector<std::string>& only) {
  const auto config = rclone_config(place.store, credentials);
  if (!config) return config.error();
  std::filesystem::path from = source;
  std::error_code failed;
  if (place.is_file && std::filesystem::is_symlink(source, failed)) {
    from = std::filesystem::canonical(source, failed);
    const auto folder = std::filesystem::canonical(source.parent_path(), failed).string() + "/";
    if (!std::filesystem::is_regular_file(from, failed) || !from.string().starts_with(folder)) {
      return Error{"it is a link that does not lead to a file beside it"};
    }
  }
  RcloneRequest request{{place.is_file ? "copyto" : "copy", from.string(),
                         rclone_place(place.store, place.path), "--transfers=8"},
                        *config};
  for (const std::string& path : only) request.files += rclone_name(path) + "\n";
  // Told neither hashes nor times, it takes what has the same size for equal.
  const bool is_blind = config->find("\ntype = webdav\n") != config->npos;
  if (is_blind) request.words.emplace_back("--ignore-times");
  const auto [links, other] = links_below(source, only);
  if (links && other.empty()) request.words.emplace_back("--copy-links");
  if (const auto failure = run_rclone(request)) {
    return Error{failure->text("cannot copy to " + quoted_text(place.path) + " of the datastore " +
                                   quoted_text(place.store.name),
                               machine)};
  }
  if (other.empty()) return Done{};
  return Error{"links were not copied, as " + quoted_text(other) +
               " does not lead to a file of the output"};
}

}  // namespace muster
