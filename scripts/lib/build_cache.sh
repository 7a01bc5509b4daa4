# shellcheck shell=bash
# Sourced after need.sh: what earlier runs compiled, for clones that have built nothing yet.
#
# Cargo compiles a crate again if one of its sources is younger than what was compiled, and sources of a new clone
# all are. With a kept build goes the checksum of each source: those that still have theirs get an old date, all
# others today's, and cargo compiles what differs and what depends on it. Dependencies are held to the checksums in
# Cargo.lock. Tests always run. The folder may be deleted at any time; FRESH=1 scripts/test does without.

# All that a kept build depends on besides the sources of the workspace, as one word.
build_key() {
    {
        rustc --version --verbose
        # Of the packages that have a source: the workspace's own have none.
        awk -v RS= '/\nsource = /' Cargo.lock
        cat .cargo/config.toml
        # Profiles, but not those of the workspace's own packages.
        awk '/^\[/ { on = /^\[profile/ && !/\.package\.(ferrorail-|xtask)/ } on && !/^#/ && NF' Cargo.toml
        # Headers that bindings are generated from, what does that, and what builds the tests' MPI programs.
        dpkg-query --show --showformat '${Package} ${Version}\n' libibverbs-dev librdmacm-dev libhwloc-dev \
            libclang-dev gcc gfortran libopenmpi-dev libmpich-dev 2>/dev/null
        cat scripts/lib/mpi_abi.sh tests/src/program.rs
        echo "${RUSTFLAGS-}"
    } | sha256sum | cut -c 1-16
}

kept_build() { echo "$(cache_dir)/build-$(build_key)"; }

# The checksum and path of each file that a build may read.
sources() {
    git ls-files -z --cached --others --exclude-standard --exclude='*.part' 2>/dev/null |
        sort -zu | xargs -0r sha256sum 2>/dev/null || true
}

# restore_build TARGET: copies the kept build into a target folder that is not there yet.
restore_build() {
    local kept
    kept=$(kept_build)
    [[ ! -e $1 ]] || return 0
    mkdir -p "$(dirname "$1")"
    if [[ -f $kept/sources ]] && touch "$kept" && cp -a "$kept" "$1.part" && date_sources "$1.part" "$1"; then
        mv "$1.part" "$1"
    else
        rm -rf "$1.part"
    fi
}

# date_sources KEPT TARGET: an old date for sources from which KEPT was built, today's for the others. The old date
# is always the same: `cargo doc` compares dates for equality. Fails without git, which knows the sources.
date_sources() {
    local here
    here=$(sources)
    [[ $here ]] || return
    cut -c 67- <<<"$here" | touch_all now
    comm -12 <(sort <<<"$here") <(sort "$1/sources") | cut -c 67- | touch_all 2001-01-01
    [[ $(<"$1/place") == "$PWD"$'\n'"$2" ]] || forget_place "$1"
}

# forget_place KEPT: compiled elsewhere, so what names that place is compiled again.
forget_place() {
    local old
    old=$(head -n 1 "$1/place")
    grep -rlaFZ "$old/" "$1"/{,loom/}checked/.fingerprint | xargs -0r dirname -z | xargs -0r rm -rf
    grep -rlE --include='*.rs' 'env!\("(CARGO_[^P]|OUT_DIR)' crates ffi scripts tests | touch_all now
}

touch_all() { tr '\n' '\0' | xargs -0r touch --no-create --date="$1"; }

# keep_build TARGET SOURCES: keeps a build in which everything was compiled from SOURCES (as `sources` printed them
# before), unless one of these is kept already or a file has changed since. Builds that no run has used for two
# weeks go.
keep_build() {
    local kept part
    kept=$(kept_build)
    part=$kept.$$
    if [[ ! -s $2 ]] || cmp -s "$2" "$kept/sources" || ! cmp -s "$2" <(sources); then return 0; fi
    find "$(cache_dir)" -maxdepth 1 -name 'build-*' -mtime +14 -exec rm -rf {} +
    mkdir -p "$part"
    if cp -a "$1"/{checked,loom,doc} "$part" && keep_programs "$1" "$part" && cp "$2" "$part/sources"; then
        printf '%s\n' "$PWD" "$1" >"$part/place"
        rm -rf "$part"{,/loom}/checked/incremental "$kept"
        mv -T "$part" "$kept"
    else
        rm -rf "$part"
    fi
}

# keep_programs TARGET COPY: the MPI programs of the tests, which have the same rule (tests/src/program.rs). A run
# compiles only those that it needs: others may be older than their sources, which are about to be called unchanged.
keep_programs() {
    local newest
    newest=$(find tests \( -name '*.[ch]' -o -name '*.inc' -o -name '*.f90' \) -printf '%T@ %p\n' | sort -n | tail -n 1)
    mkdir "$2/tests" && cp -a "$1"/tests/{openmpi,mpich,abi} "$2/tests" &&
        find "$2/tests" -type f ! -newer "${newest#* }" -delete
}
