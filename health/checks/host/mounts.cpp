#include <algorithm>
#include <array>
#include <optional>

#include "health/checks/host/host_checks.h"
#include "health/model/baseline.h"
#include "health/model/check_words.h"
#include "health/read/files.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view mountinfo = "/proc/self/mountinfo";

struct Mount {
  std::string point;           // "/data"
  std::string type;            // "ext4"
  std::string source;          // "/dev/sda1"
  std::string options;         // of the mount: "rw,relatime"
  std::string system_options;  // of the file system: "rw,errors=remount-ro"
};

// "\040" is a space: the kernel writes white space and backslashes so.
std::string unescaped(std::string_view word) {
  std::string text;
  for (std::size_t at = 0; at < word.size(); ++at) {
    const bool has_room = word[at] == '\\' && at + 3 < word.size();
    const auto code =
        has_room ? whole_number<std::uint8_t>(word.substr(at + 1, 3), 8) : std::nullopt;
    text += code ? static_cast<char>(*code) : word[at];
    if (code) at += 3;
  }
  return text;
}

// "36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro"
std::optional<Mount> parse_mount(std::string_view line) {
  const std::size_t middle = line.find(" - ");
  if (middle == line.npos) return std::nullopt;
  std::string_view left = line.substr(0, middle);
  std::string_view right = line.substr(middle + 3);
  for (int skipped = 0; skipped < 4; ++skipped) take_until(left, ' ');
  Mount mount;
  mount.point = unescaped(take_until(left, ' '));
  mount.options = take_until(left, ' ');
  mount.type = take_until(right, ' ');
  mount.source = unescaped(take_until(right, ' '));
  mount.system_options = take_until(right, ' ');
  if (!mount.point.starts_with('/') || mount.type.empty()) return std::nullopt;
  return mount;
}

// /proc/self/mountinfo; lines that are no mounts are left out.
std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  while (!text.empty()) {
    if (auto mount = parse_mount(take_until(text, '\n'))) mounts.push_back(*std::move(mount));
  }
  return mounts;
}

bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    if (take_until(options, ',') == wanted) return true;
  }
  return false;
}

bool is_never_writable(std::string_view type) {
  constexpr std::array<std::string_view, 6> types{"squashfs", "iso9660", "erofs",
                                                  "cramfs",   "romfs",   "udf"};
  return std::ranges::find(types, type) != types.end();
}

// A person who mounts read-only sets both options; the kernel in need only the file system's.
// Kernels from 6.15 on leave that one too, and say so in a word of its own.
bool has_turned_read_only(const Mount& mount) {
  if (!mount.source.starts_with("/dev/") || is_never_writable(mount.type)) return false;
  return (has_option(mount.options, "rw") && has_option(mount.system_options, "ro")) ||
         has_option(mount.system_options, "emergency_ro");
}

// What a dead server or device answers, after which nothing works on the mount.
bool is_dead(std::string_view error) {
  constexpr std::array<std::string_view, 5> words{
      "Stale file handle", "Input/output error", "Transport endpoint is not connected",
      "Host is down", "Cannot send after transport endpoint shutdown"};
  return std::ranges::find(words, error) != words.end();
}

void judge_answer(JudgedCheck& judged, const SourceFiles& files, const std::string& path) {
  const FileReading& reading = files.reading(path);
  if (reading.ok()) return judged.pass("answers");
  if (!did_not_answer(reading) && !is_dead(reading.error)) return judged.unreadable(path, reading);
  judged.fail(reading.error, "an answer");
  judged.set_source(path);
}

void judge_read_only(JudgedCheck& judged, const CheckInput& input) {
  const FileReading& reading = input.files.reading(mountinfo);
  const auto mounts = parse_mountinfo(reading.text);
  const bool is_whole = reading.ok() && !mounts.empty();
  if (!is_whole) judged.unreadable(mountinfo, reading);
  for (const Mount& mount : mounts) {
    const bool is_left_out = is_excluded(input.profile, input.check().id, mount.point);
    if (is_left_out || !has_turned_read_only(mount)) continue;
    judged.fail(mount.point, "writable");
    judged.add_evidence(mount.point + " " + mount.type + " " + mount.source + " " + mount.options +
                        " " + mount.system_options);
  }
  if (is_whole) judged.pass("none");
}

void judge_mount(JudgedCheck& judged, const CheckInput& input, const std::string& wanted) {
  const FileReading& reading = input.files.reading(mountinfo);
  const auto mounts = parse_mountinfo(reading.text);
  const bool is_there = std::ranges::find(mounts, wanted, &Mount::point) != mounts.end();
  if (is_there) return judged.pass("mounted");
  if (!reading.ok() || mounts.empty()) return judged.unreadable(mountinfo, reading);
  judged.fail("not mounted", "mounted");
}

void judge_mount_stall(JudgedCheck& judged, const CheckInput& input, const std::string& mount) {
  judge_answer(judged, input.files, "statvfs:" + mount);
  judge_answer(judged, input.files, mount);
}

// File systems that other hosts serve: without them a job finds no data.
void learn_mounts(BaselineNode& node) {
  constexpr std::array<std::string_view, 11> shared_types{
      "nfs",  "nfs4",   "lustre", "beegfs",    "gpfs",          "ceph",
      "cifs", "wekafs", "panfs",  "glusterfs", "fuse.glusterfs"};
  auto& points = node.profile.host.mounts;
  for (const Mount& mount : parse_mountinfo(node.files.reading(mountinfo).text)) {
    const bool is_shared = std::ranges::find(shared_types, mount.type) != shared_types.end();
    const bool is_new = std::ranges::find(points, mount.point) == points.end();
    if (is_shared && is_new && is_plain_text(mount.point)) points.push_back(mount.point);
  }
}

std::vector<std::string> mount_sources(const HealthProfile& profile) {
  std::vector<std::string> sources;
  for (const std::string& mount : profile.host.mounts) {
    sources.push_back("statvfs:" + mount);
    sources.push_back(mount);
  }
  return sources;
}

}  // namespace

std::span<const CheckSpec> mount_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    // The kernel no longer trusts the disk.
    {.id = "host.ro",
     .source = "/proc/self/mountinfo; kmsg Remounting filesystem read-only, XFS shut down",
     .says = "no file system that was mounted for writing is read-only", .severity = stop_reboot,
     .believe = event, .phases = when("T"), .group = host, .reads = {mountinfo},
     .is_certain = said_by_hardware, .judge = in_one_finding<judge_read_only>},
    {.id = "host.mounts", .source = "/proc/self/mountinfo",
     .says = "the profile's mounts are there", .severity = drain, .fault = setup,
     .phases = when("P"), .is_often_shared = true, .group = host, .reads = {mountinfo},
     .is_asked = is_listed<&HostProfile::mounts>,
     .judge = on_each_listed<&HostProfile::mounts, judge_mount>, .learn = learn_mounts},
    {.id = "host.mount_stall", .source = "statvfs and the first entry of each mount",
     .says = "each answers", .severity = drain, .phases = when("PTF"),
     .cost = 2ms, .is_often_shared = true, .group = host,
     .reads_for = mount_sources, .is_asked = is_listed<&HostProfile::mounts>,
     .judge = on_each_listed<&HostProfile::mounts, judge_mount_stall>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
