# shellcheck shell=bash
# Sourced after need.sh: compiled dependencies of earlier runs, for clones that have built nothing yet.
#
# What is kept is what crates.io gave: its sources are held to the checksums in Cargo.lock, and the key
# covers all else that decides what they compile to. The workspace's own crates are always built anew.
# Cargo checks what it finds there as it does its own. The folder may be deleted at any time.

# Everything that the compiled dependencies depend on, as one word.
build_key() {
    {
        rustc --version --verbose
        # Of the packages that have a source: the workspace's own have none.
        awk -v RS= '/\nsource = /' Cargo.lock
        cat .cargo/config.toml
        # Profiles, but not those of the workspace's own packages.
        awk '/^\[/ { on = /^\[profile/ && !/\.package\.(ferrorail-|xtask)/ } on && !/^#/ && NF' Cargo.toml
        # Headers that bindings are generated from, and what does that.
        dpkg-query --show --showformat '${Package} ${Version}\n' libibverbs-dev librdmacm-dev libhwloc-dev \
            libclang-dev gcc 2>/dev/null
        echo "${RUSTFLAGS-}"
    } | sha256sum | cut -c 1-16
}

built_dependencies() { echo "$(cache_dir)/build-$(build_key)"; }

# restore_dependencies TARGET: copies them into a target folder that is not there yet.
restore_dependencies() {
    local kept
    kept=$(built_dependencies)
    [[ ! -e $1 && -d $kept ]] || return 0
    touch "$kept"
    mkdir -p "$(dirname "$1")"
    cp -a "$kept" "$1.part" && mv "$1.part" "$1"
}

# keep_dependencies TARGET: keeps those of a target folder in which everything was built, unless some are
# kept already; those that no run has used for two weeks go.
keep_dependencies() {
    local kept part
    kept=$(built_dependencies)
    [[ ! -e $kept ]] || return 0
    find "$(cache_dir)" -maxdepth 1 -name 'build-*' -mtime +14 -exec rm -rf {} +
    part=$kept.$$
    if copy_dependencies "$1" "$part"; then
        mv "$part" "$kept"
    else
        rm -rf "$part"
    fi
}

# copy_dependencies TARGET COPY: all that was built but the workspace's own crates.
copy_dependencies() {
    local members=() member
    mkdir -p "$2"
    cp -a "$1"/{checked,loom} "$2" || return
    while read -r member; do members+=(--package "$member"); done < <(workspace_members)
    cargo clean --quiet --target-dir "$2" --profile checked "${members[@]}" &&
        cargo clean --quiet --target-dir "$2/loom" --profile checked "${members[@]}" || return
    rm -rf "$2"/*/incremental "$2"/*/examples
}

workspace_members() {
    cargo metadata --no-deps --format-version 1 |
        python3 -c 'import json, sys; [print(package["name"]) for package in json.load(sys.stdin)["packages"]]'
}
