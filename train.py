"""Train a scheduler, compare it with every baseline on unseen seeds, and save the results: ``gpusched train``.

python train.py                                  the default recipe, about two minutes
python train.py --teacher "" --steps 300000 --learning-rate 3e-3 --horizon 2   from scratch
python train.py --seeds 3                        three networks, and intervals over them
python train.py --scenario tiny-v1 --steps 20000
python train.py --schedulers fifo,srtf           compare with these schedulers only
python train.py --resume                         continue after an interruption
python train.py --help                           every setting, and the files that are written
"""

from gpusched_env.cli import main

if __name__ == "__main__":
    main("train")
