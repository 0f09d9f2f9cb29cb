// `muster data mount`: as what jobs stream (launcher/data/stream.h), so that the mount goes also
// when this process is killed.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cli/data/stores.h"
#include "launcher/data/rclone.h"
#include "launcher/data/stream.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr const char* machine = "this machine";

// What `stream` shows as long as `lock` is held.
Result<fs::path> mount_place(const fs::path& root, const FoundData& data, const fs::path& stream,
                             Fd& lock, const TellData& tell) {
  const PlaceInStore& place = *data.place;
  const auto credentials = load_secrets(root.parent_path(), place.store);
  if (!credentials) return credentials.error();
  const auto config = rclone_config(place.store, *credentials);
  if (!config) return config.error();
  const auto files = list_place(place, *credentials, machine);
  if (!files) return files.error();
  remove_left_streams(root.string());
  auto held = hold_stream(stream);
  if (!held) return held.error();
  lock = std::move(*held);
  const std::string first = files->files.front().path;
  const auto free = static_cast<std::int64_t>(disk_of(root).available);
  const Status begun =
      begin_stream({data.reference, "", *config, rclone_place(place.store, root_of(place))}, stream,
                   {root / "cache" / "streams", free / 2, first}, machine, [](std::string_view) {});
  if (!begun) return begun.error();
  tell(std::to_string(files->files.size()) + " files, " +
       bytes_text(static_cast<std::uint64_t>(files->bytes())) + ", read-only, of " +
       place.store.name + ": " + place.path);
  return stream / "mount" / "d" / (place.is_file ? first : "");
}

// Signals end it; else why the mount ended.
Status wait_for_signal(const fs::path& stream, const TellData& tell) {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, signal);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const timespec step{0, 500'000'000};
  for (std::string told; ::sigtimedwait(&ends, nullptr, &step) < 0;) {
    const std::string why = text_of_file(stream / "why");
    if (why.starts_with("the mount of ")) return Error{why};
    if (!why.empty() && why != told) tell(why);
    told = why;
  }
  return Done{};
}

}  // namespace

Status mount_until_signal(const Home& home, const FoundData& data, const fs::path& path,
                          const TellData& tell) {
  std::error_code failure;
  const bool was_there = fs::exists(fs::symlink_status(path, failure));
  const bool is_empty = fs::is_directory(path, failure) && fs::is_empty(path, failure) && !failure;
  if (was_there && !is_empty) return Error{path.string() + " is not an empty directory"};
  const fs::path root = home.root / "mounts";
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const fs::path stream =
      root / "streams" / (std::to_string(::getpid()) + "-" + std::to_string(now));
  Fd lock;
  const auto target = data.place ? mount_place(root, data, stream, lock, tell)
                                 : Result<fs::path>(fs::path(data.path));
  if (!target) return target.error();
  const bool is_free = !was_there || ::rmdir(path.c_str()) == 0;
  if (!is_free || ::symlink(target->c_str(), path.c_str()) != 0) {
    return system_error("make " + path.string());
  }
  tell("it is at " + path.string() + " until Ctrl-C");
  Status ended = wait_for_signal(stream, tell);
  ::unlink(path.c_str());
  if (was_there) ::mkdir(path.c_str(), 0777);
  lock.reset();
  for (int i = 0; i < 100 && fs::exists(stream, failure); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return ended;
}

}  // namespace muster
